package main

import (
	"os"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/config"
)

// sourceFlags are the flags that say where a configuration comes from.
type sourceFlags struct {
	file string
	data string
	set  []string
}

func (f *sourceFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file")
	cmd.Flags().StringVar(&f.data, "data", "", "data directory; wins over dataDir of the file")
	completeFlag(cmd, "data", folders)
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "set one key, as key=value; may be repeated")
}

func (f *sourceFlags) source() config.Source {
	src := config.Source{File: f.file, Set: f.set, Environ: os.Environ()}
	if f.data != "" {
		src.Set = append(append([]string{}, f.set...), "dataDir="+f.data)
	}
	return src
}

// load reads the configuration; the data directory comes back absolute.
func (f *sourceFlags) load() (*config.Config, error) {
	cfg, err := config.Load(f.source())
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, cfg.Resolve()
}
