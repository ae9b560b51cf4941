package kubescheduler

import schedulerv1 "k8s.io/kube-scheduler/config/v1"

// The bundles that the plugins of a translation are in.
const (
	modern  = "modern"
	classic = "classic"
	// writing has what of VolumeBinding writes to the API, beside modern.
	writing = "volumebinding"
	// entrance has plugins of the queue, for those who do not load modern.
	entrance = "points"
)

// point is a point of the scheduling framework, as KubeSchedulerConfiguration
// names it.
type point string

const (
	preEnqueue point = "preEnqueue"
	queueSort  point = "queueSort"
	preFilter  point = "preFilter"
	filter     point = "filter"
	postFilter point = "postFilter"
	preScore   point = "preScore"
	score      point = "score"
	reserve    point = "reserve"
	permit     point = "permit"
	preBind    point = "preBind"
	bind       point = "bind"
	postBind   point = "postBind"
)

// points are all of them, in the order of the cycle.
var points = []point{preEnqueue, queueSort, preFilter, filter, postFilter, preScore, score, reserve, permit, preBind, bind, postBind}

func setOf(p *schedulerv1.Plugins, at point) *schedulerv1.PluginSet {
	switch at {
	case preEnqueue:
		return &p.PreEnqueue
	case queueSort:
		return &p.QueueSort
	case preFilter:
		return &p.PreFilter
	case filter:
		return &p.Filter
	case postFilter:
		return &p.PostFilter
	case preScore:
		return &p.PreScore
	case score:
		return &p.Score
	case reserve:
		return &p.Reserve
	case permit:
		return &p.Permit
	case preBind:
		return &p.PreBind
	case bind:
		return &p.Bind
	}
	return &p.PostBind
}

// inTree is a plugin of Kubernetes.
type inTree struct {
	name string
	// at are the points that it implements, each with the plugin of the bundle
	// modern that does it here. An empty name is what needs no plugin of its own: it
	// is part of the one at the point behind (preFilter of filter, preScore of
	// score), or does nothing as Kubernetes ships it.
	at map[point]string
	// weight in the default profile; 0: 1.
	weight int32
	// own: the kernel does it without a plugin, always.
	own string
	// absent says why it is not there; such a plugin is known and not supported.
	absent string
	// optional: Kubernetes has it switched off, or it is not part of the default
	// profile.
	optional bool
}

// Names of plugins that this package speaks of.
const (
	nodeAffinity      = "NodeAffinity"
	nodeResourcesFit  = "NodeResourcesFit"
	podTopologySpread = "PodTopologySpread"
	interPodAffinity  = "InterPodAffinity"
	volumeBinding     = "VolumeBinding"
	balanced          = "NodeResourcesBalancedAllocation"
	defaultPreemption = "DefaultPreemption"
	dynamicResources  = "DynamicResources"
	taintToleration   = "TaintToleration"
	nodeUnschedulable = "NodeUnschedulable"
	imageLocality     = "ImageLocality"
	prioritySort      = "PrioritySort"
	defaultBinder     = "DefaultBinder"

	// scoring ends the names of priorities whose plugin is a predicate too.
	scoring = "Score"
)

func both(name string) map[point]string {
	return map[point]string{preFilter: "", filter: name, preScore: "", score: name + scoring}
}

// kubernetes are the plugins of Kubernetes 1.36, in the order of its default
// profile; those at the end are not in it.
var kubernetes = []inTree{
	{name: "SchedulingGates", at: map[point]string{preEnqueue: "SchedulingGates"}},
	{name: prioritySort, at: map[point]string{queueSort: ""}, own: "the queue is in the order of priority, then of arrival"},
	{name: nodeUnschedulable, at: map[point]string{filter: nodeUnschedulable}},
	{name: "NodeName", at: map[point]string{filter: "NodeName"}},
	{name: taintToleration, at: map[point]string{filter: taintToleration, preScore: "", score: taintToleration + scoring}, weight: 3},
	{name: nodeAffinity, at: map[point]string{preFilter: nodeAffinity + "PreFilter", filter: nodeAffinity, preScore: "", score: nodeAffinity + scoring}, weight: 2},
	{name: "NodePorts", at: map[point]string{preFilter: "", filter: "NodePorts"}},
	{name: nodeResourcesFit, at: both(nodeResourcesFit)},
	{name: "VolumeRestrictions", at: map[point]string{preFilter: "VolumeRestrictionsPreFilter", filter: "VolumeRestrictions"}},
	{name: "NodeVolumeLimits", at: map[point]string{preFilter: "", filter: "NodeVolumeLimits"}},
	// It scores only with the feature gate StorageCapacityScoring, which is off.
	{name: volumeBinding, at: map[point]string{preFilter: volumeBinding + "PreFilter", filter: volumeBinding, preScore: "", score: "", reserve: volumeBinding + "Reserve", preBind: volumeBinding + "PreBind"}},
	{name: "VolumeZone", at: map[point]string{preFilter: "VolumeZonePreFilter", filter: "VolumeZone"}},
	{name: podTopologySpread, at: both(podTopologySpread), weight: 2},
	{name: interPodAffinity, at: both(interPodAffinity), weight: 2},
	{name: dynamicResources, at: map[point]string{preEnqueue: "", preFilter: "", filter: dynamicResources, postFilter: "", score: "", reserve: "", preBind: ""}, weight: 2},
	{name: defaultPreemption, at: map[point]string{preEnqueue: "", postFilter: defaultPreemption}},
	{name: balanced, at: map[point]string{preScore: "", score: balanced}},
	{name: imageLocality, at: map[point]string{score: imageLocality}},
	{name: defaultBinder, at: map[point]string{bind: defaultBinder}, own: "a profile without a bind plugin is bound by the kernel"},
	{name: "NodeDeclaredFeatures", at: map[point]string{preFilter: "", filter: ""}, optional: true, absent: "features that nodes declare are not compared"},
	{name: "GangScheduling", at: map[point]string{preEnqueue: "", reserve: "", permit: ""}, optional: true, absent: "groups of pods are for a permit plugin of your own"},
	{name: "TopologyPlacementGenerator", at: map[point]string{}, optional: true, absent: "placements of groups are not there"},
	{name: "PodGroupPodsCount", at: map[point]string{}, optional: true, absent: "placements of groups are not there"},
}

// configured are the plugins of the bundle that take the arguments of one of
// Kubernetes, as that takes them.
var configured = map[string][]string{
	nodeAffinity:      {nodeAffinity, nodeAffinity + scoring},
	nodeResourcesFit:  {nodeResourcesFit, nodeResourcesFit + scoring},
	podTopologySpread: {podTopologySpread, podTopologySpread + scoring},
	interPodAffinity:  {interPodAffinity + scoring},
	volumeBinding:     {volumeBinding, volumeBinding + "PreFilter", volumeBinding + "PreBind"},
	balanced:          {balanced},
	defaultPreemption: {defaultPreemption},
}

func plugin(name string) *inTree {
	for i := range kubernetes {
		if kubernetes[i].name == name {
			return &kubernetes[i]
		}
	}
	return nil
}
