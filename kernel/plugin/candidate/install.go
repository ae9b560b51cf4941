package candidate

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Stale refuses a folder that holds the build which is in force: nothing would be compared.
func Stale(ctx context.Context, client *operate.Client, name, path string) error {
	m, err := manifest.Read(filepath.Join(path, manifest.File))
	if err != nil {
		return err
	}
	o, err := client.Find(ctx, name)
	if err != nil {
		return err
	}
	if o.Status.Version == m.Version && slices.ContainsFunc(m.Artifacts.All(), func(a manifest.Artifact) bool { return a.Digest == o.Status.Digest }) {
		return fmt.Errorf("%s holds the build that is in force, version %s (%s); build what you changed first: pintle plugin build %s", path, m.Version, o.Status.Digest, path)
	}
	return nil
}

// InstallBeside installs the bundle of a folder into c, next to the one in use, which stays
// that also where it only lies in a folder. The running kernel is asked which bundles its
// profiles use.
func InstallBeside(ctx context.Context, cfg *rest.Config, c *catalog.Catalog, path string) (*v1alpha1.PluginShadowSpec, error) {
	m, err := manifest.Read(filepath.Join(path, manifest.File))
	if err != nil {
		return nil, err
	}
	lock, err := c.Lock()
	if err != nil {
		return nil, err
	}
	if lock.Bundle(m.Name) == nil {
		kernel, err := inspect.Dial(cfg)
		if err != nil {
			return nil, err
		}
		var policy plugin.Config
		if err := kernel.Get(ctx, nil, &policy, "policy"); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(policy.Bundles, func(b plugin.BundleConfig) bool { return b.Name == m.Name }) {
			return nil, fmt.Errorf("%s holds bundle %s, of which no profile uses a predicate or a priority; only those can have candidates", path, m.Name)
		}
	}
	got, err := c.Install(ctx, path, catalog.InstallOptions{Beside: true})
	if err != nil {
		return nil, err
	}
	spec := &v1alpha1.PluginShadowSpec{Version: got.Version}
	for _, a := range []*manifest.Artifact{m.Artifacts.Process, m.Artifacts.WASM} {
		if a != nil {
			spec.Digest = a.Digest
		}
	}
	return spec, nil
}
