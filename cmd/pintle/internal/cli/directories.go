package cli

import (
	"os"
	"path/filepath"
)

// Exists reports whether there is a file or folder of that name.
func Exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// DataDirectory is the one that is meant when none is named.
func DataDirectory(named string) (string, error) {
	if named == "" {
		named = os.Getenv("PINTLE_DATADIR")
	}
	if named == "" {
		named = ".data"
	}
	return filepath.Abs(named)
}

// StoreDirectory is where the store lies below a data directory.
func StoreDirectory(data string) string { return filepath.Join(data, "store") }
