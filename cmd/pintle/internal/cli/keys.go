package cli

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/store"
)

// KeyFlag names the keys of a directory that is encrypted.
type KeyFlag struct{ file string }

// Register adds the flag to cmd.
func (k *KeyFlag) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.file, "encryption-key-file", os.Getenv("PINTLE_STORE_ENCRYPTIONKEYFILE"),
		"keys of an encrypted directory, as store.encryptionKeyFile of its kernel; for work on the directory")
}

// Directory is how the commands open a directory.
func (k *KeyFlag) Directory(dir string) (store.Config, error) {
	cfg := store.Config{
		Dir: dir, Retention: -1, MaxHistory: -1,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if k.file == "" {
		return cfg, nil
	}
	var err error
	if cfg.Keys, err = store.ReadKeys(k.file); err != nil {
		return cfg, UsageFault(err)
	}
	return cfg, nil
}
