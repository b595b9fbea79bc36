"""Rules of the registry: values in, values out. Knows neither HTTP nor SQL; the store comes in through `ports`."""
