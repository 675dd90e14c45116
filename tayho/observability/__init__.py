"""What a process tells about itself: log lines and metrics. Spans come with the requests that they would follow."""

from tayho.observability.logs import configure_logging
from tayho.observability.metrics import Metrics

__all__ = ["Metrics", "configure_logging"]
