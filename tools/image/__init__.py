"""Building the image where no container engine runs."""
