// Package schema holds the database migrations: one set of files per dialect, the same tables, columns and keys in each.
// Migrations go forward only and are additive, so that instances can be upgraded one by one.
package schema

import (
	"embed"
	"io/fs"
)

// Version is the number of the newest migration.
const Version = 2

//go:embed mysql/*.sql sqlite/*.sql
var files embed.FS

// MySQL returns the migrations for MySQL and MariaDB.
func MySQL() fs.FS { return sub("mysql") }

// SQLite returns the migrations for SQLite.
func SQLite() fs.FS { return sub("sqlite") }

func sub(folder string) fs.FS {
	f, err := fs.Sub(files, folder)
	if err != nil {
		panic(err) // the folder is embedded
	}
	return f
}
