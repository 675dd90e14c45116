-- Whether the server still answers.

-- name: answer$
SELECT 1;
