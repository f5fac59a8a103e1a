"""The steps of a start: take the home, compile and check the tables, align the views, start the queries."""
