package kernel

import (
	"context"
	"fmt"
	"slices"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
)

// The plugin host finds installed bundles by the catalog.
var _ plugin.Bundles = (*catalog.Catalog)(nil)

// openCatalog finds the installed bundles, and tells commands where they are.
func (k *Kernel) openCatalog(cfg *config.Config) error {
	if err := k.moveLock(cfg); err != nil {
		return err
	}
	c, err := k.readCatalog(cfg)
	if err != nil {
		return err
	}
	if err := catalog.WriteLocation(cfg.DataDir, c); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// moveLock takes over a lock that lies beside the configuration, where it was by
// default, if it is one of this data directory: the catalog has its bundles.
func (k *Kernel) moveLock(cfg *config.Config) error {
	former := cfg.FormerLock()
	if former == "" || former == cfg.Plugins.LockFile {
		return nil
	}
	taken, err := catalog.Adopt(catalog.Config{Directory: cfg.Plugins.Catalog, LockFile: cfg.Plugins.LockFile}, former)
	switch {
	case err != nil:
		k.log.Warn("a lock of installed plugin bundles beside the configuration does not count: plugins.lockFile names the one that does", "file", former, "reason", err, "lockFile", cfg.Plugins.LockFile)
	case taken:
		k.log.Info("the lock of installed plugin bundles is in the data directory now; the one beside the configuration may be removed", "file", former, "lockFile", cfg.Plugins.LockFile)
	}
	return nil
}

// readCatalog finds the installed bundles and writes nothing.
func (k *Kernel) readCatalog(cfg *config.Config) (c catalog.Config, err error) {
	p := cfg.Plugins
	c = catalog.Config{Directory: p.Catalog, LockFile: p.LockFile, Policy: catalog.Policy(p.Signatures), Keys: p.Keys, Directories: k.pluginDirectories(cfg)}
	for _, b := range p.Bundles {
		c.Bundles = append(c.Bundles, b.Name)
	}
	if k.catalog, err = catalog.New(c, k.log.With("part", "plugins")); err != nil {
		return c, err
	}
	lock, err := k.catalog.Lock()
	if err != nil {
		return c, err
	}
	k.catalog.Pin(lock)
	k.installed = lock
	return c, nil
}

// addInstalled loads what is installed and not configured: its plugins are
// there, and none of them is in use before a profile, controllers.enabled or a
// Plugin object names it.
func (k *Kernel) addInstalled(out *plugin.Config) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.installed.Names() {
		if slices.ContainsFunc(out.Bundles, func(b plugin.BundleConfig) bool { return b.Name == name }) {
			continue
		}
		out.Bundles = append(out.Bundles, plugin.BundleConfig{Name: name, Installed: true})
	}
}

// watchLock follows the lock file: what pintle plugin install writes there is
// loaded at once.
func (k *Kernel) watchLock(ctx context.Context) error {
	file := k.config().Plugins.LockFile
	err := config.WatchFile(ctx, file, 0, k.log, func([]byte) { _ = k.relock() }) // it has told
	if err != nil {
		k.log.Warn("plugin bundles that are installed from now on are loaded at the next start", "error", err)
		<-ctx.Done()
	}
	return nil
}

// relock loads what the lock file names now; the error is told.
func (k *Kernel) relock() error {
	k.hostMu.Lock()
	defer k.hostMu.Unlock()
	next, err := k.catalog.Lock()
	if err != nil {
		k.log.Error("installed plugin bundles not loaded; the former ones stay in force", "error", err)
		return err
	}
	k.mu.Lock()
	before := k.installed
	k.mu.Unlock()
	if next.Same(before) {
		return nil
	}
	k.setInstalled(next)
	if err := k.host.Reconfigure(k.hostConfig(k.config())); err != nil {
		k.setInstalled(before)
		k.log.Error("installed plugin bundles not loaded; the former ones stay in force", "error", err)
		return err
	}
	k.log.Info("installed plugin bundles loaded", "bundles", next.Names(), "plugins", k.pluginSummary())
	return nil
}

func (k *Kernel) setInstalled(l *catalog.Lock) {
	k.catalog.Pin(l)
	k.mu.Lock()
	k.installed = l
	k.mu.Unlock()
}
