"""What looks at messages of any format: tells it, explains, compares, says what is lost. No format belongs here."""
