package references

import (
	"cmp"
	"context"
	"slices"
	"time"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Among says by what a bundle of the catalog is named among Plugin objects and bundles of a
// configuration; empty is by none.
func Among(objects []v1alpha1.Plugin, bundles []config.Bundle) func(catalog.Entry) string {
	digests, versions := map[string]string{}, map[string]string{}
	by := ""
	note := func(bundle, version, digest string) {
		if digest != "" {
			digests[digest] = by
		} else if version != "" {
			versions[bundle+" "+version] = by
		}
	}
	for i := range objects {
		o := &objects[i]
		by = "Plugin " + o.Name + " of the running kernel"
		note(o.Spec.Bundle, o.Spec.Version, o.Spec.Digest)
		note(o.Status.Bundle, o.Status.Version, o.Status.Digest)
		for _, p := range o.Status.Previous {
			note(o.Spec.Bundle, p.Version, p.Digest)
		}
		if s := o.Spec.Shadow; s != nil {
			note(o.Spec.Bundle, s.Version, s.Digest)
		}
	}
	for _, b := range bundles {
		by = "plugins.bundles of the configuration"
		note(b.Name, "", b.Digest)
	}
	return func(e catalog.Entry) string {
		for _, d := range e.Artifacts {
			if by := digests[d]; by != "" {
				return by
			}
		}
		return cmp.Or(digests[e.Digest], versions[e.Name+" "+e.Version])
	}
}

// AwaitGone waits until no Plugin object of a running kernel names a build of a bundle that was
// removed, and says what is left where one does. tell is called each time that it waits.
func AwaitGone(ctx context.Context, client *operate.Client, gone *catalog.Locked, timeout time.Duration, tell func()) (left string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := client.List(ctx)
		switch {
		case err == nil:
			by := Among(list.Items, nil)
			left = ""
			for _, v := range slices.Concat([]catalog.Version{gone.Version}, gone.Beside, gone.Previous) {
				left = cmp.Or(left, by(catalog.Entry{Name: gone.Name, Version: v.Version, Digest: v.Digest, Artifacts: v.Artifacts}))
			}
			if left == "" {
				return ""
			}
			left += " is there"
		case ctx.Err() == nil:
			return err.Error()
		}
		tell()
		select {
		case <-ctx.Done():
			return cmp.Or(left, context.Cause(ctx).Error())
		case <-tick.C:
		}
	}
}
