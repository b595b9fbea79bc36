"""Commands that read, write and merge messages: a file a command. What they share stands in the folder above."""
