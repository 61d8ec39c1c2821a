"""What spark-submit is given; in a folder of its own, which Python puts before all others."""
