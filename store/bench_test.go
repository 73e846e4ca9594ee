package store_test

import (
	"testing"

	"github.com/batchbot/batchbot/store/storetest"
)

func BenchmarkAdmission(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { storetest.BenchmarkAdmission(b, newSQLite) })
	b.Run("mysql", func(b *testing.B) { storetest.BenchmarkAdmission(b, mysqlServer.database) })
}
