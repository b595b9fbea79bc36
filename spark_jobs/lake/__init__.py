"""Change events merged into tables of the lake, over changes of type and name. No message format belongs here."""
