package plugincmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
)

// completeVersions offers versions of the bundle of the plugin that is named
// before: those that ran, and those of the catalog where it is on this machine.
func completeVersions(f *cli.ConnectFlags, ran, installed bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := map[string]string{}
		bundle, current := args[0], ""
		for _, p := range f.List(cmd) {
			if p.Name != args[0] && p.Spec.Bundle != args[0] {
				continue
			}
			bundle, current = p.Spec.Bundle, p.Status.Version
			for _, v := range p.Status.Previous {
				if ran {
					found[v.Version] = "ran before"
				}
			}
			break
		}
		if flags := (&catalogFlags{source: cli.SourceFlags{Data: f.Data}}); installed {
			if b := flags.locked(bundle); b != nil {
				for _, v := range slices.Concat([]catalog.Version{b.Version}, b.Beside, b.Previous) {
					found[v.Version] = "installed"
				}
			}
		}
		delete(found, current)
		var out []string
		for version, how := range found {
			out = append(out, version+"\t"+how)
		}
		slices.Sort(out)
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// lock is the lock file, or an empty one where it cannot be read.
func (f *catalogFlags) lock() *catalog.Lock {
	cfg, _, err := f.config()
	if err != nil {
		return &catalog.Lock{}
	}
	lock, err := catalog.ReadLock(cfg.LockFile)
	if err != nil {
		return &catalog.Lock{}
	}
	return lock
}

// locked is a bundle of the lock file, or nil.
func (f *catalogFlags) locked(name string) *catalog.Locked { return f.lock().Bundle(name) }

// complete offers the bundles that are installed, and files beside them where a
// package may be named too.
func (f *catalogFlags) complete(files bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, directive
		}
		var names []string
		for _, b := range f.lock().Bundles {
			if strings.HasPrefix(b.Name, typed) {
				names = append(names, fmt.Sprintf("%s\t%s", b.Name, b.Version.Version))
			}
		}
		if files && len(names) == 0 {
			directive = cobra.ShellCompDirectiveDefault
		}
		return names, directive
	}
}
