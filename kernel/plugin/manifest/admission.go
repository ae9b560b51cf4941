package manifest

import (
	"fmt"

	"pintle.dev/pintle/kernel/plugin/admissionrules"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// DescribedRules are those of a guest.
func DescribedRules(d *contractv1.PluginDescription) []admissionrules.Rule {
	var list []admissionrules.Rule
	for _, r := range d.GetRules() {
		list = append(list, admissionrules.Rule{Operations: r.GetOperations(), Resources: r.GetResources()})
	}
	return list
}

// reviewsMore says what a guest describes that the manifest does not ask for, or "".
func (e *Entry) reviewsMore(d *contractv1.PluginDescription) string {
	if e.Kind != sdk.KindAdmission {
		return ""
	}
	if d.GetPhase() != e.Phase {
		return fmt.Sprintf("%s is %s in the manifest and %q in the artefact", e.Name, e.Phase, d.GetPhase())
	}
	if more := admissionrules.Beyond(e.AdmissionRules, DescribedRules(d)); more != "" {
		return fmt.Sprintf("%s reviews %s, which its manifest does not ask for: add it to the plugin's admissionRules, with Secrets, tokens, reviews of access and RBAC by their names", e.Name, more)
	}
	return ""
}
