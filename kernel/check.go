package kernel

import (
	"log/slog"
	"path/filepath"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
)

// Check checks what a configuration says of plugins as New does, against the
// bundles of this machine: that they are there and unchanged, that profiles and
// controllers name what they hold, and that plugins' configurations keep to their
// schemas; the latter faults come with lines of the file. It starts nothing and
// writes nothing. executable is the path of the kernel's binary, beside which
// bundles are looked for.
func Check(cfg *config.Config, executable string) error {
	_, err := pluginsOf(cfg, executable, func(*plugin.Config) {})
	return err
}

// pluginsOf is the plugin host of a configuration as change leaves it, not started.
func pluginsOf(cfg *config.Config, executable string, change func(*plugin.Config)) (*plugin.Host, error) {
	k := &Kernel{exe: executable, dirs: directories{plugins: filepath.Join(cfg.DataDir, "plugins")}, log: slog.New(slog.DiscardHandler)}
	if _, err := k.readCatalog(cfg); err != nil {
		return nil, err
	}
	host := k.hostConfig(cfg)
	host.Users.File = "" // nothing is written
	change(&host)
	h, err := plugin.New(host, plugin.Deps{Bundles: k.catalog})
	if err != nil {
		return nil, located(cfg, err)
	}
	return h, nil
}
