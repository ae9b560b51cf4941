package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// completionPatience is how long a shell waits for names of a running kernel.
const completionPatience = 2 * time.Second

// completeFlag has a flag offer values; a flag that is not there is a mistake here.
func completeFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

// oneOf offers the values of a flag, of which there are no others.
func oneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// folders offers folders, where the library would offer files too.
func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// list returns the plugins of the running kernel, or none: what is typed is
// completed as far as that can be known, and never complained about.
func (f *connectFlags) list(cmd *cobra.Command) []v1alpha1.Plugin {
	client, err := f.plugins()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	list, err := client.List(ctx)
	if err != nil {
		return nil
	}
	return list.Items
}

// complete offers names of plugins.
func (f *connectFlags) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return pluginNames(f.list(cmd)), cobra.ShellCompDirectiveNoFileComp
}

// completeBoth offers names of plugins and of their bundles.
func (f *connectFlags) completeBoth(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := f.list(cmd)
	names, bundles := pluginNames(list), map[string]int{}
	for i := range list {
		bundles[list[i].Spec.Bundle]++
	}
	for bundle, n := range bundles {
		if !slices.ContainsFunc(list, func(p v1alpha1.Plugin) bool { return p.Name == bundle }) {
			names = append(names, fmt.Sprintf("%s\tbundle of %d", bundle, n))
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func pluginNames(list []v1alpha1.Plugin) []string {
	names := make([]string, 0, len(list))
	for _, p := range list {
		names = append(names, fmt.Sprintf("%s\t%s, %s", p.Name, p.Spec.Kind, p.Status.State))
	}
	return names
}

// objects offers names of objects of the core group.
func (f *connectFlags) objects(cmd *cobra.Command, wanted bool, resource, namespace string) []string {
	cfg, err := f.config()
	if err != nil || !wanted {
		return nil
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	list, err := client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 500})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// completeProfiles offers the scheduler's profiles.
func (f *connectFlags) completeProfiles(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range f.policy(cmd).Profiles {
		names = append(names, p.SchedulerName)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// policy is that of the running kernel, or an empty one.
func (f *connectFlags) policy(cmd *cobra.Command) (cfg plugin.Config) {
	rest, err := f.config()
	if err != nil {
		return cfg
	}
	c, err := inspect.Dial(rest)
	if err != nil {
		return cfg
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	if err := c.Get(ctx, nil, &cfg, "policy"); err != nil {
		return plugin.Config{}
	}
	return cfg
}

// completePolicy offers plugins that profiles use, of all kinds or of one,
// with suffix behind each name.
func (f *connectFlags) completePolicy(kind v1alpha1.PluginKind, suffix string) cobra.CompletionFunc {
	directive := cobra.ShellCompDirectiveNoFileComp
	if suffix != "" {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, p := range f.list(cmd) {
			scheduling := p.Spec.Kind == v1alpha1.PluginKindPredicate || p.Spec.Kind == v1alpha1.PluginKindPriority
			if p.Status.State != v1alpha1.PluginStateDisabled && (p.Spec.Kind == kind || kind == "" && scheduling) {
				names = append(names, p.Name+suffix)
			}
		}
		return names, directive
	}
}

// completeVersions offers versions of the bundle of the plugin that is named
// before: those that ran, and those of the catalog where it is on this machine.
func (f *connectFlags) completeVersions(ran, installed bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := map[string]string{}
		bundle, current := args[0], ""
		for _, p := range f.list(cmd) {
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
		if flags := (&catalogFlags{source: sourceFlags{data: f.data}}); installed {
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
