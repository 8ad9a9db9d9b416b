"""What `textrl view` and `textrl plot` show."""
