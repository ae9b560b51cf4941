package contractv1

import "strings"

// CodeNames are the codes as the scheduling framework names them.
var CodeNames = map[Code]string{
	Code_SUCCESS: "Success", Code_ERROR: "Error", Code_UNSCHEDULABLE: "Unschedulable",
	Code_UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable", Code_WAIT: "Wait", Code_SKIP: "Skip",
}

// roles are what is added to a plugin's name where kube-scheduler has one name at
// several points, and names here are unique over all kinds.
var roles = []string{"Score", "Reserve", "PreBind", "PreFilter", "PostBind"}

// several are kube-scheduler's plugins that are at more points than one here.
var several = map[string]bool{
	"NodeResourcesFit": true, "NodeAffinity": true, "TaintToleration": true, "InterPodAffinity": true, "PodTopologySpread": true,
	"VolumeBinding": true, "DynamicResources": true,
}

// UpstreamName is what kube-scheduler calls the plugin that the one of a name is a
// part of: NodeResourcesFit of NodeResourcesFitScore. It is the label of metrics.
func UpstreamName(plugin string) string {
	for _, role := range roles {
		if whole, ok := strings.CutSuffix(plugin, role); ok && several[whole] {
			return whole
		}
	}
	return plugin
}
