package flowcontrol

import (
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"pintle.dev/pintle/kernel/api/auth/pki"
)

// PluginsGroup is the group of all plugins' identities.
const PluginsGroup = "system:pintle:plugins"

// proxyUser is who the proxy plugins' data comes to.
const proxyUser = "system:kube-proxy"

// schemas are those of the identities that upstream's do not tell from anybody:
// plugins do what upstream's controllers do, a node's packets follow its proxy, and
// administrators mend what others overload.
var schemas = []*flowcontrolv1.FlowSchema{
	flowSchema("pintle-plugins", flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: PluginsGroup}}),
	flowSchema("pintle-cluster-admins", flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: pki.ClusterAdminsGroup}}),
	flowSchema("pintle-proxies", flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: proxyUser}}),
}

// flowSchema sends all requests of a subject to the level of the system's controllers,
// each user's in turn.
func flowSchema(name string, who flowcontrolv1.Subject) *flowcontrolv1.FlowSchema {
	all := []string{"*"}
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: bootstrap.SuggestedPriorityLevelConfigurationWorkloadHigh.Name},
			MatchingPrecedence:         bootstrap.SuggestedFlowSchemaKubeControllerManager.Spec.MatchingPrecedence,
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{who},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
			}},
		},
	}
}

// suggestedSchemas may be edited and marked as such; the mandatory ones may not.
func suggestedSchemas() []*flowcontrolv1.FlowSchema {
	return slices.Concat(bootstrap.SuggestedFlowSchemas, schemas)
}
