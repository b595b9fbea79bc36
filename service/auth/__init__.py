"""Who is asking, and what they may see and change: rules without HTTP, and the files they are read from."""
