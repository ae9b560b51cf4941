package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// AddToScheme registers the defaulting functions of the kinds and of their
// lists. The types themselves are registered by whoever makes the scheme.
func AddToScheme(s *runtime.Scheme) error {
	defaulted(s, setPodDefaults, func(l *corev1.PodList) []corev1.Pod { return l.Items })
	defaulted(s, setNodeDefaults, func(l *corev1.NodeList) []corev1.Node { return l.Items })
	defaulted(s, setServiceDefaults, func(l *corev1.ServiceList) []corev1.Service { return l.Items })
	defaulted(s, setEndpointsDefaults, func(l *corev1.EndpointsList) []corev1.Endpoints { return l.Items })
	defaulted(s, setEndpointSliceDefaults, func(l *discoveryv1.EndpointSliceList) []discoveryv1.EndpointSlice { return l.Items })
	defaulted(s, setNamespaceDefaults, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items })
	defaulted(s, setPersistentVolumeDefaults, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items })
	defaulted(s, setPersistentVolumeClaimDefaults, func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items })
	defaulted(s, setConfigMapDefaults, func(l *corev1.ConfigMapList) []corev1.ConfigMap { return l.Items })
	defaulted(s, setSecretDefaults, func(l *corev1.SecretList) []corev1.Secret { return l.Items })
	defaulted(s, setLimitRangeDefaults, func(l *corev1.LimitRangeList) []corev1.LimitRange { return l.Items })
	defaulted(s, setResourceQuotaDefaults, func(l *corev1.ResourceQuotaList) []corev1.ResourceQuota { return l.Items })
	defaulted(s, setPodTemplateKindDefaults, func(l *corev1.PodTemplateList) []corev1.PodTemplate { return l.Items })
	defaulted(s, setReplicationControllerDefaults, func(l *corev1.ReplicationControllerList) []corev1.ReplicationController { return l.Items })
	defaulted(s, setReplicaSetDefaults, func(l *appsv1.ReplicaSetList) []appsv1.ReplicaSet { return l.Items })
	defaulted(s, setDeploymentDefaults, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items })
	defaulted(s, setPriorityClassDefaults, func(l *schedulingv1.PriorityClassList) []schedulingv1.PriorityClass { return l.Items })
	defaulted(s, setRuntimeClassDefaults, func(l *nodev1.RuntimeClassList) []nodev1.RuntimeClass { return l.Items })
	defaulted(s, setStorageClassDefaults, func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items })
	defaulted(s, setCSIDriverDefaults, func(l *storagev1.CSIDriverList) []storagev1.CSIDriver { return l.Items })
	defaulted(s, setVolumeAttachmentDefaults, func(l *storagev1.VolumeAttachmentList) []storagev1.VolumeAttachment { return l.Items })
	defaulted(s, setRoleBindingDefaults, func(l *rbacv1.RoleBindingList) []rbacv1.RoleBinding { return l.Items })
	defaulted(s, setClusterRoleBindingDefaults, func(l *rbacv1.ClusterRoleBindingList) []rbacv1.ClusterRoleBinding { return l.Items })
	defaulted(s, setPluginDefaults, func(l *v1alpha1.PluginList) []v1alpha1.Plugin { return l.Items })
	s.AddTypeDefaultingFunc(&corev1.PodLogOptions{}, func(obj any) { setPodLogDefaults(obj.(*corev1.PodLogOptions)) })
	return nil
}

// object and list are pointers to an API type and to the list of it.
type object[T any] interface {
	*T
	runtime.Object
}

// defaulted registers set for a kind and for each item of its list.
func defaulted[T, L any, P object[T], Q object[L]](s *runtime.Scheme, set func(P), items func(Q) []T) {
	s.AddTypeDefaultingFunc(P(new(T)), func(obj any) { set(obj.(P)) })
	s.AddTypeDefaultingFunc(Q(new(L)), func(obj any) {
		list := items(obj.(Q))
		for i := range list {
			set(P(&list[i]))
		}
	})
}
