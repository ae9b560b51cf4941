package plugincmd

import (
	"log/slog"
	"os"
	"path/filepath"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/kubescheduler"
	"pintle.dev/pintle/kernel/plugin/manifest"
)

// InstalledPlugins are the plugins that a kernel with a configuration would find: of
// the bundles that are installed in its data directory, and of those in its plugin
// directories. What cannot be read is none; the kernel tells of it.
func InstalledPlugins(file, data string) ([]kubescheduler.Installed, error) {
	flags := catalogFlags{source: cli.SourceFlags{File: file, Data: data}}
	exe, err := cli.Binary()
	if err != nil {
		return nil, err
	}
	directories := []string{filepath.Join(filepath.Dir(exe), "plugins")}
	if file != "" {
		full, err := config.Load(flags.source.Source())
		if err != nil {
			// Its scheduler part is about to be replaced, which may be what is wrong.
			flags.source.File = ""
		} else if len(full.Plugins.Directories) > 0 {
			directories = full.Plugins.Directories
		}
	}
	var out []kubescheduler.Installed
	seen := map[string]bool{}
	add := func(dir string) {
		m, err := manifest.Read(filepath.Join(dir, manifest.File))
		if err != nil || seen[m.Name] {
			return
		}
		seen[m.Name] = true
		for _, e := range m.Plugins {
			out = append(out, kubescheduler.Installed{Bundle: m.Name, Name: e.Name, Kind: e.Kind, Configured: e.ConfigSchema != nil})
		}
	}
	cfg, _, err := flags.config()
	if err != nil {
		return nil, err
	}
	c, err := catalog.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	lock, err := c.Lock()
	if err != nil {
		return nil, err
	}
	for _, name := range lock.Names() {
		if dir, err := c.Find(name, "", ""); err == nil {
			add(dir)
		}
	}
	for _, dir := range directories {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			add(filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}
