package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// completionPatience is how long a shell waits for names of a running kernel.
const completionPatience = 2 * time.Second

// CompleteFlag has a flag offer values; a flag that is not there is a mistake here.
func CompleteFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

// OneOf offers the values of a flag, of which there are no others.
func OneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// Folders offers folders, where the library would offer files too.
func Folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// List returns the plugins of the running kernel, or none: what is typed is
// completed as far as that can be known, and never complained about.
func (f *ConnectFlags) List(cmd *cobra.Command) []v1alpha1.Plugin {
	client, err := f.Plugins()
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

// Complete offers names of plugins.
func (f *ConnectFlags) Complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return pluginNames(f.List(cmd)), cobra.ShellCompDirectiveNoFileComp
}

// CompleteBoth offers names of plugins and of their bundles.
func (f *ConnectFlags) CompleteBoth(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := f.List(cmd)
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

// Objects offers names of objects of the core group.
func (f *ConnectFlags) Objects(cmd *cobra.Command, wanted bool, resource, namespace string) []string {
	cfg, err := f.Config()
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

// CompleteProfiles offers the scheduler's profiles.
func (f *ConnectFlags) CompleteProfiles(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range f.policy(cmd).Profiles {
		names = append(names, p.SchedulerName)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// policy is that of the running kernel, or an empty one.
func (f *ConnectFlags) policy(cmd *cobra.Command) (cfg plugin.Config) {
	rest, err := f.Config()
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

// CompletePolicy offers plugins that profiles use, of all kinds or of one,
// with suffix behind each name.
func (f *ConnectFlags) CompletePolicy(kind v1alpha1.PluginKind, suffix string) cobra.CompletionFunc {
	directive := cobra.ShellCompDirectiveNoFileComp
	if suffix != "" {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, p := range f.List(cmd) {
			scheduling := p.Spec.Kind == v1alpha1.PluginKindPredicate || p.Spec.Kind == v1alpha1.PluginKindPriority
			if p.Status.State != v1alpha1.PluginStateDisabled && (p.Spec.Kind == kind || kind == "" && scheduling) {
				names = append(names, p.Name+suffix)
			}
		}
		return names, directive
	}
}
