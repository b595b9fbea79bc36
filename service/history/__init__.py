"""The history of tables: what TiDB's DDL made of them, statement by statement. Knows neither HTTP nor SQL stores."""
