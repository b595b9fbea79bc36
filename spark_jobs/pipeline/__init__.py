"""One message through the codecs, and what a job does around it: order, results, views. No Arrow, no Spark."""
