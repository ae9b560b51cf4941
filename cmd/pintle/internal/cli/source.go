package cli

import (
	"os"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/config"
)

// SourceFlags are the flags that say where a configuration comes from.
type SourceFlags struct {
	File string
	Data string
	set  []string
}

// Register adds the flags to cmd.
func (f *SourceFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.File, "config", "", "configuration file")
	cmd.Flags().StringVar(&f.Data, "data", "", "data directory; wins over dataDir of the file")
	CompleteFlag(cmd, "data", Folders)
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "set one key, as key=value; may be repeated")
}

// Source is where the flags and the environment say that the configuration is.
func (f *SourceFlags) Source() config.Source {
	src := config.Source{File: f.File, Set: f.set, Environ: os.Environ()}
	if f.Data != "" {
		src.Set = append(append([]string{}, f.set...), "dataDir="+f.Data)
	}
	return src
}

// Load reads the configuration; the data directory comes back absolute.
func (f *SourceFlags) Load() (*config.Config, error) {
	cfg, err := config.Load(f.Source())
	if err != nil {
		return nil, UsageFault(err)
	}
	return cfg, cfg.Resolve()
}
