package kubescheduler

import (
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// policyFile is a Policy of kube-scheduler up to 1.22.
type policyFile struct {
	Kind                           string             `json:"kind"`
	APIVersion                     string             `json:"apiVersion"`
	Metadata                       *metav1.ObjectMeta `json:"metadata"`
	Predicates                     *[]policyPredicate `json:"predicates"`
	Priorities                     *[]policyPriority  `json:"priorities"`
	Extenders                      []policyExtender   `json:"extenders"`
	HardPodAffinitySymmetricWeight *int32             `json:"hardPodAffinitySymmetricWeight"`
	AlwaysCheckAllPredicates       bool               `json:"alwaysCheckAllPredicates"`
}

type policyPredicate struct {
	Name     string             `json:"name"`
	Argument *predicateArgument `json:"argument"`
}

type predicateArgument struct {
	ServiceAffinity *struct {
		Labels []string `json:"labels"`
	} `json:"serviceAffinity"`
	LabelsPresence *labelsPresence `json:"labelsPresence"`
}

type labelsPresence struct {
	Labels   []string `json:"labels"`
	Presence bool     `json:"presence"`
}

type policyPriority struct {
	Name     string            `json:"name"`
	Weight   int64             `json:"weight"`
	Argument *priorityArgument `json:"argument"`
}

type priorityArgument struct {
	ServiceAntiAffinity *struct {
		Label string `json:"label"`
	} `json:"serviceAntiAffinity"`
	LabelPreference *struct {
		Label    string `json:"label"`
		Presence bool   `json:"presence"`
	} `json:"labelPreference"`
	RequestedToCapacityRatio *struct {
		Shape     []schedulerv1.UtilizationShapePoint `json:"shape"`
		Resources []schedulerv1.ResourceSpec          `json:"resources"`
	} `json:"requestedToCapacityRatioArguments"`
}

// policyExtender differs from today's by a word and by a time-out in nanoseconds.
type policyExtender struct {
	URLPrefix        string                                `json:"urlPrefix"`
	FilterVerb       string                                `json:"filterVerb"`
	PreemptVerb      string                                `json:"preemptVerb"`
	PrioritizeVerb   string                                `json:"prioritizeVerb"`
	Weight           int64                                 `json:"weight"`
	BindVerb         string                                `json:"bindVerb"`
	EnableHTTPS      bool                                  `json:"enableHttps"`
	TLSConfig        *schedulerv1.ExtenderTLSConfig        `json:"tlsConfig"`
	HTTPTimeout      int64                                 `json:"httpTimeout"`
	NodeCacheCapable bool                                  `json:"nodeCacheCapable"`
	ManagedResources []schedulerv1.ExtenderManagedResource `json:"managedResources"`
	Ignorable        bool                                  `json:"ignorable"`
}

// policy translates a Policy: by the classic set, which it was written for, if that
// has all it names, and else by the modern one.
func (s *source) policy(out *output) {
	var in policyFile
	if !s.Decode("", s.Root, &in) && !s.Has("predicates") && !s.Has("priorities") {
		return
	}
	p := &policy{source: s, in: &in, arguments: map[string]map[string]any{}}
	p.out.SchedulerName = "default-scheduler"
	p.choose()
	// Gates came later than policies, and pods with gates are not to be scheduled
	// by an old one either.
	p.out.PreEnqueue = []string{"SchedulingGates"}
	p.predicates()
	p.priorities()
	if in.AlwaysCheckAllPredicates {
		s.Note("alwaysCheckAllPredicates", "has no counterpart: the first predicate that fails is told of, and pintle explain asks all")
	}
	if w := in.HardPodAffinitySymmetricWeight; w != nil {
		switch {
		case *w < 1 || *w > 100:
			s.Fault("hardPodAffinitySymmetricWeight", "Invalid value: %d: not in valid range [1, 100]", *w)
		case p.out.uses(interPodAffinity + scoring):
			p.arguments[interPodAffinity] = map[string]any{"hardPodAffinityWeight": *w}
		default:
			s.Note("hardPodAffinitySymmetricWeight", "is without effect: the policy has no InterPodAffinityPriority")
		}
	}
	if p.out.uses(volumeBinding) {
		p.out.Reserve, p.out.PreBind = []string{volumeBinding + "Reserve"}, []string{volumeBinding + "PreBind"}
	}
	out.Plugins.Bundles = []bundle{{Name: p.set}}
	if p.set == classic {
		out.Plugins.Bundles = append(out.Plugins.Bundles, bundle{Name: entrance})
	}
	out.Scheduler.Profiles = []profile{p.out}
	out.writes()
	extenders := make([]schedulerv1.Extender, len(in.Extenders))
	for i := range in.Extenders {
		e := &in.Extenders[i]
		extenders[i] = schedulerv1.Extender{
			URLPrefix: e.URLPrefix, FilterVerb: e.FilterVerb, PreemptVerb: e.PreemptVerb, PrioritizeVerb: e.PrioritizeVerb, Weight: e.Weight, BindVerb: e.BindVerb,
			EnableHTTPS: e.EnableHTTPS, TLSConfig: e.TLSConfig, HTTPTimeout: metav1.Duration{Duration: time.Duration(e.HTTPTimeout)},
			NodeCacheCapable: e.NodeCacheCapable, ManagedResources: e.ManagedResources, Ignorable: e.Ignorable,
		}
	}
	ignored := s.extenders("extenders", extenders, out)
	if p.set == modern {
		ignore(p.arguments, ignored)
		p.configureParts(out, []map[string]map[string]any{p.arguments})
	} else if len(ignored) > 0 {
		into := &out.Plugins.Bundles[0]
		into.Config = map[string]any{"PodFitsResources": map[string]any{"ignoredResources": ignored}}
	}
}

type policy struct {
	*source
	in        *policyFile
	set       string
	out       profile
	arguments map[string]map[string]any
}

func (o *old) in(set string) []string {
	if set == classic {
		return o.classic
	}
	return o.modern
}

// choose finds the set that has what the policy names.
func (p *policy) choose() {
	has := func(set string) bool {
		for _, e := range p.predicateList() {
			o, known := oldPredicates[e.Name]
			if known && len(o.in(set)) == 0 || set == classic && e.Argument != nil {
				return false
			}
		}
		for _, e := range p.priorityList() {
			o, known := oldPriorities[e.Name]
			if known && len(o.in(set)) == 0 && o.nothing == "" || set == classic && e.Argument != nil {
				return false
			}
		}
		return true
	}
	if p.set = classic; !has(classic) {
		p.set = modern
	}
}

func (p *policy) predicateList() []policyPredicate {
	if p.in.Predicates != nil {
		return *p.in.Predicates
	}
	var list []policyPredicate
	for _, name := range oldDefaultPredicates {
		list = append(list, policyPredicate{Name: name})
	}
	return list
}

func (p *policy) priorityList() []policyPriority {
	if p.in.Priorities != nil {
		return *p.in.Priorities
	}
	var list []policyPriority
	for _, name := range oldDefaultPriorities {
		list = append(list, policyPriority{Name: name, Weight: 1})
	}
	return list
}

// unfitting is the fault of a plugin that the chosen set lacks.
func (p *policy) unfitting(path, name string) {
	p.Fault(path, "%s is in the bundle classic alone, and other plugins of the policy are in the bundle modern: leave one of them out", name)
}

func (p *policy) predicates() {
	add := func(names ...string) {
		for _, name := range names {
			if slices.Contains(p.out.Predicates, name) {
				continue
			}
			p.out.Predicates = append(p.out.Predicates, name)
			if known := plugin(name); known != nil && known.at[preFilter] != "" {
				p.out.PreFilter = append(p.out.PreFilter, known.at[preFilter])
			}
		}
	}
	for _, name := range mandatory {
		o := oldPredicates[name]
		add(o.in(p.set)...)
	}
	for i, e := range p.predicateList() {
		path := fmt.Sprintf("predicates[%d]", i)
		if e.Argument != nil {
			p.predicateArgument(path, &e, add)
			continue
		}
		switch o, known := oldPredicates[e.Name]; {
		case !known:
			p.Fault(path, "%q is no predicate of Kubernetes: build it as a plugin of this kernel (pintle plugin init), and name it in the profile", e.Name)
		case len(o.in(p.set)) == 0:
			p.unfitting(path, e.Name)
		default:
			add(o.in(p.set)...)
			if o.nothing != "" {
				p.Note(path, "%s: %s", e.Name, o.nothing)
			}
		}
	}
}

// predicateArgument: labels that nodes must have, or may not, are a node affinity of
// all pods.
func (p *policy) predicateArgument(path string, e *policyPredicate, add func(...string)) {
	switch a := e.Argument; {
	case a.ServiceAffinity != nil && a.LabelsPresence != nil || a.ServiceAffinity == nil && a.LabelsPresence == nil:
		p.Fault(path+".argument", "exactly one predicate argument is required")
	case a.ServiceAffinity != nil:
		p.Fault(path+".argument.serviceAffinity", "is not there, as in Kubernetes since 1.23; give the pods a required pod affinity to the service's labels")
	case len(a.LabelsPresence.Labels) == 0:
		p.Fault(path+".argument.labelsPresence.labels", "Required value")
	default:
		operator := "DoesNotExist"
		if a.LabelsPresence.Presence {
			operator = "Exists"
		}
		add(nodeAffinity)
		expressions := p.added()
		for _, label := range a.LabelsPresence.Labels {
			*expressions = append(*expressions, map[string]any{"key": label, "operator": operator})
		}
		p.arguments[nodeAffinity] = map[string]any{"addedAffinity": map[string]any{
			"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": *expressions}}},
		}}
	}
}

// added are the expressions that all pods are to match, so far.
func (p *policy) added() *[]any {
	list := []any{}
	if args := p.arguments[nodeAffinity]; args != nil {
		required := args["addedAffinity"].(map[string]any)["requiredDuringSchedulingIgnoredDuringExecution"].(map[string]any)
		list = required["nodeSelectorTerms"].([]any)[0].(map[string]any)["matchExpressions"].([]any)
	}
	return &list
}

func (p *policy) priorities() {
	p.out.Priorities = []priority{}
	strategy := ""
	for i, e := range p.priorityList() {
		path := fmt.Sprintf("priorities[%d]", i)
		if e.Weight <= 0 || e.Weight > math.MaxInt32 {
			p.Fault(path+".weight", "priority %s should have a positive weight applied to it or it has overflown", e.Name)
			continue
		}
		o, known := oldPriorities[e.Name]
		if e.Argument != nil {
			if o, known = p.priorityArgument(path, &e); !known {
				continue
			}
		}
		switch {
		case !known:
			p.Fault(path, "%q is no priority of Kubernetes: build it as a plugin of this kernel (pintle plugin init), and name it in the profile", e.Name)
			continue
		case len(o.in(p.set)) == 0 && o.nothing != "":
			p.Note(path, "%s has no counterpart: %s", e.Name, o.nothing)
			continue
		case len(o.in(p.set)) == 0:
			p.unfitting(path, e.Name)
			continue
		}
		if p.set == modern && o.strategy != "" {
			if strategy != "" && strategy != o.strategy {
				p.Fault(path, "%s scores by %s, and another priority by %s: a profile has one strategy; leave one out", e.Name, o.strategy, strategy)
				continue
			}
			if strategy = o.strategy; p.arguments[nodeResourcesFit] == nil {
				p.arguments[nodeResourcesFit] = map[string]any{"scoringStrategy": map[string]any{
					"type": o.strategy, "resources": []any{map[string]any{"name": "cpu", "weight": 1}, map[string]any{"name": "memory", "weight": 1}},
				}}
			}
		}
		for _, name := range o.in(p.set) {
			p.weigh(path, name, int32(e.Weight))
		}
	}
}

// weigh adds a priority; two names of the policy may be one here.
func (p *policy) weigh(path, name string, weight int32) {
	for i := range p.out.Priorities {
		if w := &p.out.Priorities[i]; w.Name == name {
			p.Note(path, "is %s, as another priority is: their weights are added", name)
			w.Weight = int32(min(int64(w.Weight)+int64(weight), math.MaxInt32))
			return
		}
	}
	p.out.Priorities = append(p.out.Priorities, priority{name, weight})
}

func (p *policy) priorityArgument(path string, e *policyPriority) (old, bool) {
	path += ".argument"
	switch a := e.Argument; {
	case a.ServiceAntiAffinity != nil:
		p.Fault(path+".serviceAntiAffinity", "is not there, as in Kubernetes since 1.23; give the pods a topology spread constraint by the label %s", a.ServiceAntiAffinity.Label)
	case a.LabelPreference != nil:
		p.Fault(path+".labelPreference", "is not there, as in Kubernetes since 1.23; give the pods a preferred node affinity to the label %s", a.LabelPreference.Label)
	case a.RequestedToCapacityRatio != nil:
		r := a.RequestedToCapacityRatio
		list := checkShape(field.NewPath(path+".requestedToCapacityRatioArguments", "shape"), r.Shape)
		if s := p.Invalid; len(list) > 0 {
			s(list)
			return old{}, false
		}
		var shape, resources []any
		for _, point := range r.Shape {
			shape = append(shape, map[string]any{"utilization": point.Utilization, "score": point.Score})
		}
		if len(r.Resources) == 0 {
			r.Resources = []schedulerv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
		}
		for _, resource := range r.Resources {
			resources = append(resources, map[string]any{"name": resource.Name, "weight": max(resource.Weight, 1)})
		}
		p.arguments[nodeResourcesFit] = map[string]any{"scoringStrategy": map[string]any{
			"type": "RequestedToCapacityRatio", "resources": resources, "requestedToCapacityRatio": map[string]any{"shape": shape},
		}}
		return oldPriorities["RequestedToCapacityRatioPriority"], true
	default:
		p.Fault(path, "exactly one priority argument is required")
	}
	return old{}, false
}
