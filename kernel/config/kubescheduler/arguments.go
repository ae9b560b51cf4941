package kubescheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/config/strictyaml"
	"pintle.dev/pintle/kernel/yamltree"
)

// maxShapeScore is the largest score of a point of a shape.
const maxShapeScore = 10

// argumentsOf has, by plugin, what decodes its arguments at a path and checks them.
var argumentsOf = map[string]func(s *source, at, plugin string) (field.ErrorList, bool){
	nodeAffinity:      checkedBy(checkNodeAffinity),
	nodeResourcesFit:  checkedBy(checkFit),
	balanced:          checkedBy(checkBalanced),
	interPodAffinity:  checkedBy(checkInterPodAffinity),
	podTopologySpread: checkedBy(checkSpread),
	volumeBinding:     checkedBy(checkVolumeBinding),
	defaultPreemption: checkedBy(checkPreemption),
}

// checkedBy is for arguments of one type; not ok: they are not of that type.
func checkedBy[T any](check func(*field.Path, *T) field.ErrorList) func(s *source, at, plugin string) (field.ErrorList, bool) {
	return func(s *source, at, plugin string) (field.ErrorList, bool) {
		args := new(T)
		if !s.typed(at, plugin, args) {
			return nil, false
		}
		return check(field.NewPath(at), args), true
	}
}

// arguments checks what a pluginConfig entry says and returns it as it is written,
// without its type; nil where there is none to hand on.
func (s *source) arguments(path string, entry *schedulerv1.PluginConfig) map[string]any {
	node := yamltree.Child(s.At(path), "args")
	if node == nil {
		return nil
	}
	at := path + ".args"
	if entry.Name == dynamicResources {
		s.typed(at, entry.Name, &schedulerv1.DynamicResourcesArgs{})
		s.Note(at, "is without effect: devices are not allocated here")
		return nil
	}
	checked := argumentsOf[entry.Name]
	if checked == nil {
		s.Note(at, "plugin %s takes no arguments; these are without effect", entry.Name)
		return nil
	}
	list, ok := checked(s, at, entry.Name)
	s.Invalid(list)
	if !ok || len(list) > 0 {
		return nil
	}
	text, err := strictyaml.ToJSON(node)
	if err != nil {
		s.Fault(at, "%v", err)
		return nil
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		s.Fault(at, "want a group of keys")
		return nil
	}
	delete(out, "apiVersion")
	delete(out, "kind")
	return out
}

// typed decodes arguments, whose type may be written with them.
func (s *source) typed(path, name string, into any) bool {
	node := s.At(path)
	if version := yamltree.Child(node, "apiVersion"); version != nil && version.Value != schedulerv1.SchemeGroupVersion.String() {
		s.Fault(path+".apiVersion", "%q; want %s", version.Value, schedulerv1.SchemeGroupVersion)
		return false
	}
	if kind := yamltree.Child(node, "kind"); kind != nil && kind.Value != name+"Args" {
		s.Fault(path+".kind", "args for plugin %s were not of type %sArgs, got %s", name, name, kind.Value)
		return false
	}
	return s.Decode(path, node, into)
}

func checkNodeAffinity(path *field.Path, args *schedulerv1.NodeAffinityArgs) field.ErrorList {
	if args.AddedAffinity == nil {
		return nil
	}
	added := path.Child("addedAffinity")
	var all []error
	if required := args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		_, err := nodeaffinity.NewNodeSelector(required, field.WithPath(added.Child("requiredDuringSchedulingIgnoredDuringExecution")))
		all = append(all, err)
	}
	if preferred := args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) > 0 {
		_, err := nodeaffinity.NewPreferredSchedulingTerms(preferred, field.WithPath(added.Child("preferredDuringSchedulingIgnoredDuringExecution")))
		all = append(all, err)
	}
	var list field.ErrorList
	for _, err := range all {
		if err == nil {
			continue
		}
		errs := []error{err}
		var several utilerrors.Aggregate
		if errors.As(err, &several) {
			errs = utilerrors.Flatten(several).Errors()
		}
		for _, e := range errs {
			var one *field.Error
			if !errors.As(e, &one) {
				one = field.InternalError(added, e)
			}
			list = append(list, one)
		}
	}
	return list
}

func checkFit(path *field.Path, args *schedulerv1.NodeResourcesFitArgs) field.ErrorList {
	var list field.ErrorList
	for i, name := range args.IgnoredResources {
		list = append(list, metav1validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i))...)
	}
	for i, group := range args.IgnoredResourceGroups {
		at := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			list = append(list, field.Invalid(at, group, "resource group name can't contain '/'"))
		}
		list = append(list, metav1validation.ValidateLabelName(group, at)...)
	}
	strategy := args.ScoringStrategy
	if strategy == nil {
		return list
	}
	at := path.Child("scoringStrategy")
	kinds := []schedulerv1.ScoringStrategyType{schedulerv1.LeastAllocated, schedulerv1.MostAllocated, schedulerv1.RequestedToCapacityRatio}
	if strategy.Type != kinds[0] && strategy.Type != kinds[1] && strategy.Type != kinds[2] {
		list = append(list, field.NotSupported(at.Child("type"), strategy.Type, kinds))
	}
	for i, r := range strategy.Resources {
		if r.Weight < 0 || r.Weight > 100 { // 0 is 1
			list = append(list, field.Invalid(at.Child("resources").Index(i).Child("weight"), r.Weight,
				fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)))
		}
	}
	ratio := at.Child("requestedToCapacityRatio")
	switch {
	case strategy.Type != schedulerv1.RequestedToCapacityRatio && strategy.RequestedToCapacityRatio != nil:
		list = append(list, field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
	case strategy.Type == schedulerv1.RequestedToCapacityRatio && strategy.RequestedToCapacityRatio == nil:
		list = append(list, field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
	case strategy.RequestedToCapacityRatio != nil:
		list = append(list, checkShape(ratio.Child("shape"), strategy.RequestedToCapacityRatio.Shape)...)
	}
	return list
}

func checkShape(path *field.Path, shape []schedulerv1.UtilizationShapePoint) field.ErrorList {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var list field.ErrorList
	for i := 1; i < len(shape); i++ {
		if shape[i-1].Utilization >= shape[i].Utilization {
			list = append(list, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, p := range shape {
		if p.Utilization < 0 || p.Utilization > 100 {
			list = append(list, field.Invalid(path.Index(i).Child("utilization"), p.Utilization, "not in valid range [0, 100]"))
		}
		if p.Score < 0 || p.Score > maxShapeScore {
			list = append(list, field.Invalid(path.Index(i).Child("score"), p.Score, "not in valid range [0, 10]"))
		}
	}
	return list
}

func checkBalanced(path *field.Path, args *schedulerv1.NodeResourcesBalancedAllocationArgs) field.ErrorList {
	var list field.ErrorList
	seen := map[string]bool{}
	for i, r := range args.Resources {
		at := path.Child("resources").Index(i)
		if seen[r.Name] {
			list = append(list, field.Duplicate(at.Child("name"), r.Name))
		}
		seen[r.Name] = true
		if r.Weight != 0 && r.Weight != 1 { // 0 is 1
			list = append(list, field.Invalid(at.Child("weight"), r.Weight, "must be 1"))
		}
	}
	return list
}

func checkInterPodAffinity(path *field.Path, args *schedulerv1.InterPodAffinityArgs) field.ErrorList {
	if w := ptr.Deref(args.HardPodAffinityWeight, 1); w < 0 || w > 100 {
		return field.ErrorList{field.Invalid(path.Child("hardPodAffinityWeight"), w, "not in valid range [0, 100]")}
	}
	return nil
}

func checkSpread(path *field.Path, args *schedulerv1.PodTopologySpreadArgs) field.ErrorList {
	var list field.ErrorList
	kind := args.DefaultingType
	if kind == "" {
		kind = schedulerv1.SystemDefaulting
	}
	switch {
	case kind != schedulerv1.SystemDefaulting && kind != schedulerv1.ListDefaulting:
		list = append(list, field.NotSupported(path.Child("defaultingType"), kind,
			[]schedulerv1.PodTopologySpreadConstraintsDefaulting{schedulerv1.ListDefaulting, schedulerv1.SystemDefaulting}))
	case kind == schedulerv1.SystemDefaulting && len(args.DefaultConstraints) > 0:
		list = append(list, field.Invalid(path.Child("defaultingType"), kind, "when .defaultConstraints are not empty"))
	}
	type key struct{ topology, action string }
	seen := map[key]bool{}
	for i, c := range args.DefaultConstraints {
		at := path.Child("defaultConstraints").Index(i)
		if c.MaxSkew <= 0 {
			list = append(list, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
		}
		if c.TopologyKey == "" {
			list = append(list, field.Required(at.Child("topologyKey"), "can not be empty"))
		} else {
			list = append(list, metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
		}
		switch c.WhenUnsatisfiable {
		case corev1.DoNotSchedule, corev1.ScheduleAnyway:
		case "":
			list = append(list, field.Required(at.Child("whenUnsatisfiable"), "can not be empty"))
		default:
			list = append(list, field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable,
				[]corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}))
		}
		if c.LabelSelector != nil {
			list = append(list, field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
		}
		k := key{c.TopologyKey, string(c.WhenUnsatisfiable)}
		if seen[k] {
			list = append(list, field.Duplicate(at, fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		seen[k] = true
	}
	return list
}

func checkVolumeBinding(path *field.Path, args *schedulerv1.VolumeBindingArgs) field.ErrorList {
	var list field.ErrorList
	if t := ptr.Deref(args.BindTimeoutSeconds, 600); t < 0 {
		list = append(list, field.Invalid(path.Child("bindTimeoutSeconds"), t, "invalid BindTimeoutSeconds, should not be a negative value"))
	}
	if args.Shape != nil {
		list = append(list, field.Invalid(path.Child("shape"), "<value omitted>", "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"))
	}
	return list
}

func checkPreemption(path *field.Path, args *schedulerv1.DefaultPreemptionArgs) field.ErrorList {
	var list field.ErrorList
	percentage, absolute := ptr.Deref(args.MinCandidateNodesPercentage, 10), ptr.Deref(args.MinCandidateNodesAbsolute, 100)
	atPercentage, atAbsolute := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	if percentage < 0 || percentage > 100 {
		list = append(list, field.Invalid(atPercentage, percentage, "not in valid range [0, 100]"))
	}
	if absolute < 0 {
		list = append(list, field.Invalid(atAbsolute, absolute, "not in valid range [0, inf)"))
	}
	if percentage == 0 && absolute == 0 {
		list = append(list, field.Invalid(atPercentage, percentage, "cannot be zero at the same time as minCandidateNodesAbsolute"),
			field.Invalid(atAbsolute, absolute, "cannot be zero at the same time as minCandidateNodesPercentage"))
	}
	return list
}
