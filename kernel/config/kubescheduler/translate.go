package kubescheduler

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/yamltree"
)

// The kinds that are taken in.
const (
	kindConfiguration = "KubeSchedulerConfiguration"
	kindPolicy        = "Policy"
)

// Translation is a file of kube-scheduler's as a configuration of this kernel.
type Translation struct {
	out output
	// Notes say what has no counterpart and needs none.
	Notes config.Faults
}

// Translate translates a file; name is for messages. Its error is config.Faults:
// each line says what could not be translated, where, and what to do; what could
// be is returned with it, unless the file cannot be read at all. installed are the
// plugins at hand, by which those are taken over that Kubernetes does not have.
func Translate(name string, data []byte, installed ...Installed) (*Translation, error) {
	s, err := read(name, data)
	if err != nil {
		return nil, err
	}
	s.installed = installed
	t := &Translation{out: output{APIVersion: config.APIVersion, Kind: config.Kind}}
	version, kind := "", ""
	if n := yamltree.Child(s.Root, "apiVersion"); n != nil {
		version = n.Value
	}
	if n := yamltree.Child(s.Root, "kind"); n != nil {
		kind = n.Value
	}
	switch {
	case kind == kindPolicy && (version == "v1" || version == ""):
		s.policy(&t.out)
	case kind == kindPolicy:
		s.Fault("apiVersion", "%q; a Policy is of v1", version)
	case kind == kindConfiguration && version == schedulerv1.SchemeGroupVersion.String():
		s.configuration(&t.out)
	case kind == kindConfiguration:
		s.Fault("apiVersion", "%q is not served by Kubernetes 1.36; convert the file to %s", version, schedulerv1.SchemeGroupVersion)
	default:
		s.Fault("kind", "%q; want %s of %s, or %s of v1", kind, kindConfiguration, schedulerv1.SchemeGroupVersion, kindPolicy)
	}
	t.Notes = s.Notes
	if len(s.Faults) > 0 {
		return t, s.Faults
	}
	return t, nil
}

func (s *source) configuration(out *output) {
	var in schedulerv1.KubeSchedulerConfiguration
	// Arguments are read with their types later.
	if !s.Decode("", s.Root, &in) && len(in.Profiles) == 0 && s.Has("profiles") {
		return
	}
	out.Plugins.Bundles = []bundle{{Name: modern}}
	out.Scheduler.PodInitialBackoff = seconds(in.PodInitialBackoffSeconds)
	out.Scheduler.PodMaxBackoff = seconds(in.PodMaxBackoffSeconds)
	first, last := ptr.Deref(in.PodInitialBackoffSeconds, 1), ptr.Deref(in.PodMaxBackoffSeconds, 10)
	if first <= 0 {
		s.Fault("podInitialBackoffSeconds", "Invalid value: %d: must be greater than 0", first)
	}
	if last < first {
		s.Fault("podMaxBackoffSeconds", "Invalid value: %d: must be greater than or equal to PodInitialBackoffSeconds", last)
	}
	if in.Parallelism != nil {
		if *in.Parallelism <= 0 {
			s.Fault("parallelism", "Invalid value: %d: should be an integer value greater than zero", *in.Parallelism)
		}
		s.Note("parallelism", "has no counterpart: plugins are asked about all nodes in one call")
	}
	s.percentage("percentageOfNodesToScore", in.PercentageOfNodesToScore)
	s.election(&in, out)
	s.unneeded()
	if len(in.Profiles) == 0 {
		in.Profiles = []schedulerv1.KubeSchedulerProfile{{}}
	}
	if len(in.Profiles) == 1 && in.Profiles[0].SchedulerName == nil {
		in.Profiles[0].SchedulerName = ptr.To("default-scheduler")
	}
	arguments := make([]map[string]map[string]any, len(in.Profiles))
	seen := map[string]bool{}
	for i := range in.Profiles {
		p, path := &in.Profiles[i], fmt.Sprintf("profiles[%d]", i)
		switch name := ptr.Deref(p.SchedulerName, ""); {
		case name == "":
			s.Fault(path+".schedulerName", "Required value")
		case seen[name]:
			s.Fault(path+".schedulerName", "Duplicate value: %q", name)
		default:
			seen[name] = true
		}
		s.percentage(path+".percentageOfNodesToScore", p.PercentageOfNodesToScore)
		out.Scheduler.Profiles = append(out.Scheduler.Profiles, s.profile(path, p))
		arguments[i] = s.pluginConfig(path, p)
	}
	out.writes()
	s.load(out)
	for i := range out.Scheduler.Profiles {
		if out.Scheduler.Profiles[i].uses(dynamicResources) {
			s.Note("profiles", "%s refuses pods with resource claims: devices are not allocated here", dynamicResources)
			break
		}
	}
	ignored := s.extenders("extenders", in.Extenders, out)
	for i := range arguments {
		ignore(arguments[i], ignored)
	}
	s.configureParts(out, arguments)
}

// pluginConfig reads the arguments of a profile's plugins.
func (s *source) pluginConfig(path string, p *schedulerv1.KubeSchedulerProfile) map[string]map[string]any {
	out := map[string]map[string]any{}
	seen := map[string]bool{}
	for i := range p.PluginConfig {
		entry, at := &p.PluginConfig[i], fmt.Sprintf("%s.pluginConfig[%d]", path, i)
		switch {
		case seen[entry.Name]:
			s.Fault(at, "repeated config for plugin %s", entry.Name)
		case s.known(entry.Name) == nil:
			s.unknown(at, entry.Name)
		case plugin(entry.Name) == nil:
			if args := s.foreignArguments(at, entry); len(args) > 0 {
				out[entry.Name] = args
			}
		default:
			if args := s.arguments(at, entry); len(args) > 0 {
				out[entry.Name] = args
			}
		}
		seen[entry.Name] = true
	}
	return out
}

// configureParts hands the arguments to the plugins that take them: to the bundle
// where all profiles that use a plugin agree, to the profile where not.
func (s *source) configureParts(out *output, arguments []map[string]map[string]any) {
	for name, parts := range s.takers() {
		for _, part := range parts {
			var users []int
			for i := range out.Scheduler.Profiles {
				if out.Scheduler.Profiles[i].uses(part) {
					users = append(users, i)
				}
			}
			if len(users) == 0 {
				continue
			}
			same := !slices.ContainsFunc(users, func(i int) bool {
				return !reflect.DeepEqual(arguments[i][name], arguments[users[0]][name])
			})
			for _, i := range users {
				args := arguments[i][name]
				if len(args) == 0 {
					continue
				}
				if same {
					into := &out.Plugins.Bundles[0]
					if part == volumeBinding+"PreBind" {
						into = out.bundle(writing)
					}
					if f := s.foreigners[name]; f != nil {
						into = out.bundle(f.bundle)
					}
					if into.Config == nil {
						into.Config = map[string]any{}
					}
					into.Config[part] = args
					break
				}
				into := &out.Scheduler.Profiles[i]
				if into.Config == nil {
					into.Config = map[string]any{}
				}
				into.Config[part] = args
			}
		}
	}
}

// bundle is one that the translation loads.
func (o *output) bundle(name string) *bundle {
	i := slices.IndexFunc(o.Plugins.Bundles, func(b bundle) bool { return b.Name == name })
	return &o.Plugins.Bundles[i]
}

// writes loads the bundle that writes, if a profile names a plugin of it.
func (o *output) writes() {
	if slices.ContainsFunc(o.Scheduler.Profiles, func(p profile) bool {
		return slices.Contains(p.Reserve, volumeBinding+"Reserve") || slices.Contains(p.PreBind, volumeBinding+"PreBind")
	}) {
		o.Plugins.Bundles = append(o.Plugins.Bundles, bundle{Name: writing})
	}
}

// ignore adds resources that extenders have the scheduler ignore.
func ignore(arguments map[string]map[string]any, resources []string) {
	if len(resources) == 0 {
		return
	}
	args := arguments[nodeResourcesFit]
	if args == nil {
		args = map[string]any{}
		arguments[nodeResourcesFit] = args
	}
	list, _ := args["ignoredResources"].([]any)
	for _, name := range resources {
		if !slices.Contains(list, any(name)) {
			list = append(list, name)
		}
	}
	args["ignoredResources"] = list
}

func (s *source) percentage(path string, n *int32) {
	if n == nil {
		return
	}
	if *n < 0 || *n > 100 {
		s.Fault(path, "Invalid value: %d: not in valid range [0-100]", *n)
		return
	}
	if *n != 100 {
		s.Note(path, "has no counterpart: all nodes that fit are scored, as with 100")
	}
}

func (s *source) election(in *schedulerv1.KubeSchedulerConfiguration, out *output) {
	e := &in.LeaderElection
	take := func(path string, d metav1.Duration) string {
		if d.Duration == 0 {
			return ""
		}
		if d.Duration < 0 {
			s.Fault(path, "Invalid value: %s: must be greater than zero", d.Duration)
		}
		return d.Duration.String()
	}
	got := leaderElection{
		LeaseDuration: take("leaderElection.leaseDuration", e.LeaseDuration), RenewDeadline: take("leaderElection.renewDeadline", e.RenewDeadline),
		RetryPeriod: take("leaderElection.retryPeriod", e.RetryPeriod),
	}
	if got != (leaderElection{}) {
		out.Election = &got
	}
	if e.LeaderElect != nil && !*e.LeaderElect {
		s.Note("leaderElection.leaderElect", "has no counterpart: kernels on one etcd elect, a kernel on its own store is alone")
	}
	if e.ResourceLock != "" && e.ResourceLock != "leases" {
		s.Fault("leaderElection.resourceLock", `Invalid value: %q: resourceLock value must be "leases"`, e.ResourceLock)
	}
	if e.ResourceName != "" && e.ResourceName != schedulerv1.SchedulerDefaultLockObjectName || e.ResourceNamespace != "" && e.ResourceNamespace != schedulerv1.SchedulerDefaultLockObjectNamespace {
		s.Note("leaderElection", "the Lease is always kube-system/kube-scheduler")
	}
}

// unneeded notes what the kernel has no need of.
func (s *source) unneeded() {
	for path, why := range map[string]string{
		"clientConnection":          "has no counterpart: the scheduler speaks with the API in the same process, without limits of its own",
		"enableProfiling":           "has no counterpart: /debug/pprof is there for who may get it",
		"enableContentionProfiling": "has no counterpart: contention is not profiled",
		"delayCacheUntilActive":     "has no counterpart: a kernel that does not lead feeds no scheduler",
	} {
		if s.Has(path) {
			s.Note(path, "%s", why)
		}
	}
}

func seconds(n *int64) string {
	if n == nil {
		return ""
	}
	return (time.Duration(*n) * time.Second).String()
}
