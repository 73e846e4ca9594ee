// Package config reads the two files that people write: the server's settings (Load) and the repository file .batchbot.yml
// (ParseRepositoryFile).
//
// Both are read strictly. A key that nobody reads is refused with the nearest one that somebody does, since a misspelt setting would
// otherwise silently be the default. All mistakes of a file are reported at once, one line each: where, what stands there unless
// it is a secret, and what to do.
//
// Server settings come from a YAML file and from environment variables that begin with BATCHBOT_, which win. Two underscores
// step into a section: BATCHBOT_DATABASE__DSN is database.dsn. A host is addressed by its name, with underscores for hyphens:
// BATCHBOT_HOSTS__GITHUB_MAIN__TOKEN. A list is addressed by position: BATCHBOT_HOSTS__GITHUB_MAIN__WEBHOOK_SECRETS__0.
//
// Secrets are bot.Secret, which redacts itself, and each can be given as the name of a file that holds it.
package config
