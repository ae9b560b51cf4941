package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/fake"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"

	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

func init() { apiregistration.Install(legacyscheme.Scheme) }

// strategy is what the registry asks of a kind.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// Without an authorizer everybody may name parameters.
var (
	anyResource = resolver.ResourceResolverFunc(func(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
		return gvk.GroupVersion().WithResource("any"), nil
	})
	validatingPolicy = validatingadmissionpolicy.NewStrategy(nil, anyResource)
)

// The namespace of all requests has the label for administrators of devices, and of
// drivers all but one may be spoken for.
var (
	adminNamespaces = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: requestNamespace, Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"},
	}}).CoreV1().Namespaces()
	allButOneDriver = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetName() == "refused.example.com" {
			return authorizer.DecisionNoOpinion, "no reason", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	claimStrategy = resourceclaim.NewStrategy(adminNamespaces, allButOneDriver)
)

// kinds are upstream's strategies by kind; a subresource is "Kind/name" and
// has updates only.
var kinds = map[string]rest.RESTUpdateStrategy{
	"Pod":                          pod.Strategy,
	"Pod/status":                   pod.StatusStrategy,
	"Pod/ephemeralcontainers":      pod.EphemeralContainersStrategy,
	"Pod/resize":                   pod.ResizeStrategy,
	"PodTemplate":                  podtemplate.Strategy,
	"Node":                         node.Strategy,
	"Node/status":                  node.StatusStrategy,
	"Service":                      service.Strategy,
	"Service/status":               service.StatusStrategy,
	"Endpoints":                    endpoint.Strategy,
	"EndpointSlice":                endpointslice.Strategy,
	"Namespace":                    namespace.Strategy,
	"Namespace/status":             namespace.StatusStrategy,
	"Namespace/finalize":           namespace.FinalizeStrategy,
	"Event":                        event.Strategy,
	"PersistentVolume":             persistentvolume.Strategy,
	"PersistentVolume/status":      persistentvolume.StatusStrategy,
	"PersistentVolumeClaim":        persistentvolumeclaim.Strategy,
	"PersistentVolumeClaim/status": persistentvolumeclaim.StatusStrategy,
	"ConfigMap":                    configmap.Strategy,
	"Secret":                       secret.Strategy,
	"ServiceAccount":               serviceaccount.Strategy,
	"LimitRange":                   limitrange.Strategy,
	"ResourceQuota":                resourcequota.Strategy,
	"ResourceQuota/status":         resourcequota.StatusStrategy,
	"ReplicationController":        replicationcontroller.Strategy,
	"ReplicationController/status": replicationcontroller.StatusStrategy,
	"ReplicaSet":                   replicaset.Strategy,
	"ReplicaSet/status":            replicaset.StatusStrategy,
	"Deployment":                   deployment.Strategy,
	"Deployment/status":            deployment.StatusStrategy,
	"DaemonSet":                    daemonset.Strategy,
	"DaemonSet/status":             daemonset.StatusStrategy,
	"StatefulSet":                  statefulset.Strategy,
	"StatefulSet/status":           statefulset.StatusStrategy,
	"ControllerRevision":           controllerrevision.Strategy,
	"Job":                          job.Strategy,
	"Job/status":                   job.StatusStrategy,
	"CronJob":                      cronjob.Strategy,
	"CronJob/status":               cronjob.StatusStrategy,
	"Lease":                        lease.Strategy,
	"PriorityClass":                priorityclass.Strategy,
	"PodDisruptionBudget":          poddisruptionbudget.Strategy,
	"PodDisruptionBudget/status":   poddisruptionbudget.StatusStrategy,
	"RuntimeClass":                 runtimeclass.Strategy,
	"Role":                         role.Strategy,
	"ClusterRole":                  clusterrole.Strategy,
	"RoleBinding":                  rolebinding.Strategy,
	"ClusterRoleBinding":           clusterrolebinding.Strategy,
	"StorageClass":                 storageclass.Strategy,
	"CSINode":                      csinode.Strategy,
	"CSIDriver":                    csidriver.Strategy,
	"CSIStorageCapacity":           csistoragecapacity.Strategy,
	"VolumeAttachment":             volumeattachment.Strategy,
	"VolumeAttachment/status":      volumeattachment.StatusStrategy,
	"Ingress":                      ingress.Strategy,
	"Ingress/status":               ingress.StatusStrategy,
	"IngressClass":                 ingressclass.Strategy,
	"IPAddress":                    ipaddress.Strategy,
	"NetworkPolicy":                networkpolicy.Strategy,
	"ServiceCIDR":                  servicecidr.Strategy,
	"ServiceCIDR/status":           servicecidr.StatusStrategy,
	"VolumeAttributesClass":        volumeattributesclass.Strategy,
	"FlowSchema":                   flowschema.Strategy,
	"FlowSchema/status":            flowschema.StatusStrategy,

	"HorizontalPodAutoscaler":            horizontalpodautoscaler.Strategy,
	"HorizontalPodAutoscaler/status":     horizontalpodautoscaler.StatusStrategy,
	"CertificateSigningRequest":          certificates.Strategy,
	"CertificateSigningRequest/status":   certificates.StatusStrategy,
	"CertificateSigningRequest/approval": certificates.ApprovalStrategy,
	"APIService":                         apiservice.NewStrategy(legacyscheme.Scheme),
	"APIService/status":                  apiservice.NewStatusStrategy(legacyscheme.Scheme),

	"ValidatingWebhookConfiguration":   validatingwebhookconfiguration.Strategy,
	"MutatingWebhookConfiguration":     mutatingwebhookconfiguration.Strategy,
	"ValidatingAdmissionPolicy":        validatingPolicy,
	"ValidatingAdmissionPolicy/status": validatingadmissionpolicy.NewStatusStrategy(validatingPolicy),
	"ValidatingAdmissionPolicyBinding": validatingadmissionpolicybinding.NewStrategy(nil, nil, anyResource),
	"MutatingAdmissionPolicy":          mutatingadmissionpolicy.NewStrategy(nil, anyResource),
	"MutatingAdmissionPolicyBinding":   mutatingadmissionpolicybinding.NewStrategy(nil, nil, anyResource),

	"DeviceClass":           deviceclass.Strategy,
	"ResourceClaim":         claimStrategy,
	"ResourceClaim/status":  resourceclaim.NewStatusStrategy(claimStrategy),
	"ResourceClaimTemplate": resourceclaimtemplate.NewStrategy(adminNamespaces),
	"ResourceSlice":         resourceslice.Strategy,

	"PriorityLevelConfiguration":        prioritylevelconfiguration.Strategy,
	"PriorityLevelConfiguration/status": prioritylevelconfiguration.StatusStrategy,
}
