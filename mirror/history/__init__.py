"""What was seen of flows over time: kept in Parquet files within bounds, and analysed."""
