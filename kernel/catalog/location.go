package catalog

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

// locationFile, in a data directory, says where the kernel of it has its
// catalog and lock, so that commands need not be told.
const locationFile = "plugins/location.json"

// WriteLocation leaves a configuration in a data directory, for commands.
func WriteLocation(data string, cfg Config) error {
	var err error
	if cfg.Directory, err = filepath.Abs(cfg.Directory); err != nil {
		return err
	}
	if cfg.LockFile, err = filepath.Abs(cfg.LockFile); err != nil {
		return err
	}
	directories := make([]string, len(cfg.Directories))
	for i, d := range cfg.Directories {
		if directories[i], err = filepath.Abs(d); err != nil {
			return err
		}
	}
	cfg.Directories = directories
	keys := make([]string, len(cfg.Keys))
	for i, k := range cfg.Keys {
		if keys[i], err = filepath.Abs(k); err != nil {
			return err
		}
	}
	cfg.Keys = keys
	text, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(data, filepath.FromSlash(locationFile)), text, 0o600)
}

// ReadLocation is the configuration that the kernel of a data directory last
// had. An error that wraps fs.ErrNotExist says that it had none yet.
func ReadLocation(data string) (Config, error) {
	var cfg Config
	path := filepath.Join(data, filepath.FromSlash(locationFile))
	text, err := readBounded(path, maxKeyBytes)
	if err != nil {
		return cfg, err
	}
	if err := json.Unmarshal(text, &cfg); err != nil {
		return cfg, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}
