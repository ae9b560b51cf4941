package kubescheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentconfig "k8s.io/component-base/config/v1alpha1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/config"
)

// Describe is the way back: what runs, as kube-scheduler's /configz tells it.
// configs are the configurations of plugins that no profile has apart, by name.
// Plugins that Kubernetes has go by its names, others by their own. What it
// returns of a translation translates to the same again.
func Describe(s *config.Scheduler, e *config.Election, configs map[string]json.RawMessage) *schedulerv1.KubeSchedulerConfiguration {
	out := &schedulerv1.KubeSchedulerConfiguration{
		TypeMeta:                 metav1.TypeMeta{APIVersion: schedulerv1.SchemeGroupVersion.String(), Kind: kindConfiguration},
		PercentageOfNodesToScore: ptr.To[int32](100),
		PodInitialBackoffSeconds: ptr.To(roundUp(s.InitialBackoff)), PodMaxBackoffSeconds: ptr.To(roundUp(s.MaxBackoff)),
		LeaderElection: componentconfig.LeaderElectionConfiguration{
			LeaderElect: ptr.To(true), ResourceLock: "leases",
			ResourceName: schedulerv1.SchedulerDefaultLockObjectName, ResourceNamespace: schedulerv1.SchedulerDefaultLockObjectNamespace,
			LeaseDuration: metav1.Duration{Duration: e.LeaseDuration}, RenewDeadline: metav1.Duration{Duration: e.RenewDeadline}, RetryPeriod: metav1.Duration{Duration: e.RetryPeriod},
		},
	}
	for i := range s.Profiles {
		out.Profiles = append(out.Profiles, describeProfile(&s.Profiles[i], configs))
	}
	for i := range s.Extenders {
		out.Extenders = append(out.Extenders, describeExtender(&s.Extenders[i]))
	}
	return out
}

// roundUp is a duration in seconds, of which the format has whole ones alone.
func roundUp(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// upstream is what a plugin is part of in Kubernetes.
func upstream(name string, at point) *inTree {
	for i := range kubernetes {
		if kubernetes[i].at[at] == name {
			return &kubernetes[i]
		}
	}
	return nil
}

func describeProfile(p *config.Profile, configs map[string]json.RawMessage) schedulerv1.KubeSchedulerProfile {
	out := schedulerv1.KubeSchedulerProfile{SchedulerName: ptr.To(p.SchedulerName), Plugins: &schedulerv1.Plugins{}}
	out.Plugins.MultiPoint.Disabled = []schedulerv1.Plugin{{Name: everything}}
	apart := map[string]json.RawMessage{}
	_ = json.Unmarshal(p.Config, &apart) // kernel/config found it to be an object
	arguments := map[string]json.RawMessage{}
	add := func(at point, name string, weight *int32) {
		set := setOf(out.Plugins, at)
		if !slices.ContainsFunc(set.Enabled, func(e schedulerv1.Plugin) bool { return e.Name == name }) {
			set.Enabled = append(set.Enabled, schedulerv1.Plugin{Name: name, Weight: weight})
		}
	}
	list := func(at point, name string, weight *int32) {
		is := upstream(name, at)
		as := name
		if is != nil {
			as = is.name
			// What is part of another here is at a point of its own there.
			for folded, behind := range map[point]point{preFilter: filter, preScore: score} {
				if part, has := is.at[folded]; has && part == "" && behind == at {
					add(folded, as, nil)
				}
			}
		}
		add(at, as, weight)
		for _, from := range []map[string]json.RawMessage{apart, configs} {
			if raw := from[name]; len(raw) > 0 && arguments[as] == nil {
				arguments[as] = raw
			}
		}
	}
	for _, names := range []struct {
		at   point
		list []string
	}{
		{preEnqueue, p.PreEnqueue}, {queueSort, []string{p.QueueSort}}, {preFilter, p.PreFilter}, {filter, p.Predicates}, {postFilter, p.PostFilter},
		{preScore, p.PreScore}, {reserve, p.Reserve}, {permit, p.Permit}, {preBind, p.PreBind}, {bind, p.Bind}, {postBind, p.PostBind},
	} {
		for _, name := range names.list {
			if name != "" {
				list(names.at, name, nil)
			}
		}
	}
	for _, w := range p.Priorities {
		list(score, w.Name, ptr.To(int32(w.Weight)))
	}
	// The kernel's own.
	if p.QueueSort == "" {
		add(queueSort, prioritySort, nil)
	}
	if len(p.Bind) == 0 {
		add(bind, defaultBinder, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		out.PluginConfig = append(out.PluginConfig, schedulerv1.PluginConfig{Name: name, Args: runtime.RawExtension{Raw: arguments[name]}})
	}
	return out
}

func describeExtender(e *config.Extender) schedulerv1.Extender {
	out := schedulerv1.Extender{
		URLPrefix: e.URLPrefix, FilterVerb: e.FilterVerb, PreemptVerb: e.PreemptVerb, PrioritizeVerb: e.PrioritizeVerb, Weight: e.Weight, BindVerb: e.BindVerb,
		EnableHTTPS: e.EnableHTTPS, HTTPTimeout: metav1.Duration{Duration: e.HTTPTimeout}, NodeCacheCapable: e.NodeCacheCapable, Ignorable: e.Ignorable,
	}
	if e.TLS != (config.ExtenderTLS{}) {
		out.TLSConfig = &schedulerv1.ExtenderTLSConfig{
			Insecure: e.TLS.Insecure, ServerName: e.TLS.ServerName, CertFile: e.TLS.CertFile, KeyFile: e.TLS.KeyFile, CAFile: e.TLS.CAFile,
		}
	}
	for _, name := range e.ManagedResources {
		out.ManagedResources = append(out.ManagedResources, schedulerv1.ExtenderManagedResource{Name: name})
	}
	return out
}
