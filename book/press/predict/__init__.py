"""What a GPU is predicted to take: `counting` counts without one into `data/predictions/` (`press rehearse --predict`),
`kept` reads that, asks the formula and says what it has to hold, `pages` writes what chapters and the ledger show."""
