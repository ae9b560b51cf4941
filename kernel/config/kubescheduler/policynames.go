package kubescheduler

// old is what a Policy names: the plugins of the classic set that are it, and those
// of the modern one. A set that lacks it has none; nothing says that it needs none.
type old struct {
	classic, modern []string
	nothing         string
	// strategy of NodeResourcesFit that it stands for; priorities only.
	strategy string
}

// conditions became taints: a node that is short of something has one.
const conditionsAreTaints = "nodes in this condition have a taint, which the predicate of taints looks at"

var oldPredicates = map[string]old{
	"PodFitsHostPorts":        {classic: []string{"PodFitsHostPorts"}, modern: []string{"NodePorts"}},
	"PodFitsPorts":            {classic: []string{"PodFitsHostPorts"}, modern: []string{"NodePorts"}},
	"PodFitsResources":        {classic: []string{"PodFitsResources"}, modern: []string{nodeResourcesFit}},
	"HostName":                {classic: []string{"HostName"}, modern: []string{"NodeName"}},
	"MatchNodeSelector":       {classic: []string{"MatchNodeSelector"}, modern: []string{nodeAffinity}},
	"NoDiskConflict":          {classic: []string{"NoDiskConflict"}, modern: []string{"VolumeRestrictions"}},
	"NoVolumeZoneConflict":    {classic: []string{"NoVolumeZoneConflict"}, modern: []string{"VolumeZone"}},
	"MaxEBSVolumeCount":       {classic: []string{"MaxEBSVolumeCount"}, modern: []string{"NodeVolumeLimits"}},
	"MaxGCEPDVolumeCount":     {classic: []string{"MaxGCEPDVolumeCount"}, modern: []string{"NodeVolumeLimits"}},
	"MaxAzureDiskVolumeCount": {modern: []string{"NodeVolumeLimits"}},
	"MaxCinderVolumeCount":    {modern: []string{"NodeVolumeLimits"}},
	"MaxCSIVolumeCountPred":   {modern: []string{"NodeVolumeLimits"}},
	"GeneralPredicates":       {classic: []string{"PodFitsResources", "HostName", "PodFitsHostPorts", "MatchNodeSelector"}, modern: []string{nodeResourcesFit, "NodeName", "NodePorts", nodeAffinity}},
	"PodToleratesNodeTaints":  {classic: []string{"PodToleratesNodeTaints"}, modern: []string{taintToleration}},
	"CheckNodeUnschedulable":  {classic: []string{"CheckNodeUnschedulable"}, modern: []string{nodeUnschedulable}},
	"CheckNodeCondition":      {classic: []string{"PodToleratesNodeTaints"}, modern: []string{taintToleration}, nothing: conditionsAreTaints},
	"CheckNodeMemoryPressure": {classic: []string{"PodToleratesNodeTaints"}, modern: []string{taintToleration}, nothing: conditionsAreTaints},
	"CheckNodeDiskPressure":   {classic: []string{"PodToleratesNodeTaints"}, modern: []string{taintToleration}, nothing: conditionsAreTaints},
	"CheckNodePIDPressure":    {classic: []string{"PodToleratesNodeTaints"}, modern: []string{taintToleration}, nothing: conditionsAreTaints},
	"CheckVolumeBinding":      {modern: []string{volumeBinding}},
	"MatchInterPodAffinity":   {modern: []string{interPodAffinity}},
	"EvenPodsSpread":          {modern: []string{podTopologySpread}},
}

var oldPriorities = map[string]old{
	"LeastRequestedPriority":           {classic: []string{"LeastRequestedPriority"}, modern: []string{nodeResourcesFit + scoring}, strategy: "LeastAllocated"},
	"MostRequestedPriority":            {modern: []string{nodeResourcesFit + scoring}, strategy: "MostAllocated"},
	"RequestedToCapacityRatioPriority": {modern: []string{nodeResourcesFit + scoring}, strategy: "RequestedToCapacityRatio"},
	"BalancedResourceAllocation":       {classic: []string{"BalancedResourceAllocation"}, modern: []string{balanced}},
	"SelectorSpreadPriority":           {classic: []string{"SelectorSpreadPriority"}, modern: []string{podTopologySpread + scoring}},
	"ServiceSpreadingPriority":         {classic: []string{"ServiceSpreadingPriority"}},
	"EqualPriority":                    {classic: []string{"EqualPriority"}, nothing: "it scores all nodes alike"},
	"NodeAffinityPriority":             {classic: []string{"NodeAffinityPriority"}, modern: []string{nodeAffinity + scoring}},
	"TaintTolerationPriority":          {modern: []string{taintToleration + scoring}},
	"ImageLocalityPriority":            {classic: []string{"ImageLocalityPriority"}, modern: []string{imageLocality}},
	"InterPodAffinityPriority":         {modern: []string{interPodAffinity + scoring}},
	"EvenPodsSpreadPriority":           {modern: []string{podTopologySpread + scoring}},
	"NodePreferAvoidPodsPriority":      {nothing: "the annotation preferAvoidPods is not read any more, as in Kubernetes since 1.24"},
}

// What a Policy without a list means (SCH-13, SCH-15).
var (
	oldDefaultPredicates = []string{
		"PodFitsHostPorts", "PodFitsResources", "NoDiskConflict", "NoVolumeZoneConflict", "MatchNodeSelector", "HostName", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount",
	}
	oldDefaultPriorities = []string{"LeastRequestedPriority", "BalancedResourceAllocation", "SelectorSpreadPriority", "NodeAffinityPriority"}
	// mandatory predicates are there whatever a Policy says.
	mandatory = []string{"CheckNodeUnschedulable", "PodToleratesNodeTaints"}
)
