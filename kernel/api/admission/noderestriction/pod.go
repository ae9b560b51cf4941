package noderestriction

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

func (p *Plugin) admitPod(ctx context.Context, node string, a admission.Attributes) error {
	switch a.GetOperation() {
	case admission.Create:
		return p.admitMirror(ctx, node, a)
	case admission.Delete:
		pod, err := p.pod(ctx, a, a.GetName())
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != node {
			return refuse(a, "node %q can only delete pods with spec.nodeName set to itself", node)
		}
		return nil
	}
	return refuse(a, "unexpected operation %q, node %q can only create and delete mirror pods", a.GetOperation(), node)
}

func (p *Plugin) admitMirror(ctx context.Context, name string, a admission.Attributes) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return refuse(a, "unexpected type %T", a.GetObject())
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return refuse(a, "pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, name)
	}
	if pod.Spec.NodeName != name {
		return refuse(a, "node %q can only create pods with spec.nodeName set to itself", name)
	}
	if len(pod.OwnerReferences) > 1 {
		return refuse(a, "node %q can only create pods with a single owner reference set to itself", name)
	}
	if len(pod.OwnerReferences) == 0 {
		return refuse(a, "node %q can only create pods with an owner reference set to itself", name)
	}
	owner := pod.OwnerReferences[0]
	if owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != name {
		return refuse(a, "node %q can only create pods with an owner reference set to itself", name)
	}
	if owner.Controller == nil || !*owner.Controller {
		return refuse(a, "node %q can only create pods with a controller owner reference set to itself", name)
	}
	if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
		return refuse(a, "node %q must not set blockOwnerDeletion on an owner reference", name)
	}
	node, err := p.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		node, err = p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return refuse(a, "error looking up node %s to verify uid: %w", name, err)
	}
	if owner.UID != node.UID {
		return refuse(a, "node %s UID mismatch: expected %s got %s", name, owner.UID, node.UID)
	}
	if resource := referenced(pod); resource != "" {
		return refuse(a, "node %q can not create pods that reference %s", name, resource)
	}
	return nil
}

// referenced names a kind of API objects that the pod refers to, "" for none.
// A node could read them through a pod it made up.
func referenced(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName != "" {
		return "serviceaccounts"
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		return "secrets"
	}
	inEnv := func(env []corev1.EnvVar, from []corev1.EnvFromSource) string {
		for i := range env {
			if source := env[i].ValueFrom; source != nil && source.SecretKeyRef != nil {
				return "secrets"
			} else if source != nil && source.ConfigMapKeyRef != nil {
				return "configmaps"
			}
		}
		for i := range from {
			if from[i].SecretRef != nil {
				return "secrets"
			} else if from[i].ConfigMapRef != nil {
				return "configmaps"
			}
		}
		return ""
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if found := inEnv(containers[i].Env, containers[i].EnvFrom); found != "" {
				return found
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if found := inEnv(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom); found != "" {
			return found
		}
	}
	for i := range pod.Spec.Volumes {
		// What needs nothing of the API is allowed; all other sources name a
		// secret, a claim, a map or may do so.
		v := &pod.Spec.Volumes[i].VolumeSource
		switch {
		case v.EmptyDir != nil, v.HostPath != nil, v.DownwardAPI != nil, v.GitRepo != nil, v.NFS != nil, v.Image != nil:
		case v.Secret != nil:
			return "secrets"
		case v.ConfigMap != nil:
			return "configmaps"
		case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
			return "persistentvolumeclaims"
		case v.Projected != nil:
			for j := range v.Projected.Sources {
				switch source := &v.Projected.Sources[j]; {
				case source.Secret != nil:
					return "secrets"
				case source.ConfigMap != nil:
					return "configmaps"
				case source.ServiceAccountToken != nil:
					return "serviceaccounts"
				case source.ClusterTrustBundle != nil:
					return "clustertrustbundles"
				case source.PodCertificate != nil:
					return "podcertificates"
				}
			}
		default:
			return "volumes of this type"
		}
	}
	return ""
}

func admitPodStatus(node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Update {
		return refuse(a, "unexpected operation %q", a.GetOperation())
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok {
		return refuse(a, "unexpected type %T", a.GetOldObject())
	}
	if old.Spec.NodeName != node {
		return refuse(a, "node %q can only update pod status for pods with spec.nodeName set to itself", node)
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return refuse(a, "unexpected type %T", a.GetObject())
	}
	if !maps.Equal(old.Labels, pod.Labels) {
		return refuse(a, "node %q cannot update labels through pod status", node)
	}
	if !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses) {
		return refuse(a, "node %q cannot update resource claim statues", node)
	}
	if !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus) {
		return refuse(a, "node %q cannot update extended resource claim status", node)
	}
	return nil
}

func admitClaimStatus(node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Update {
		return refuse(a, "unexpected operation %q", a.GetOperation())
	}
	old, ok := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return refuse(a, "unexpected type %T", a.GetOldObject())
	}
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return refuse(a, "unexpected type %T", a.GetObject())
	}
	old, claim = old.DeepCopy(), claim.DeepCopy()
	for _, c := range []*corev1.PersistentVolumeClaim{old, claim} {
		c.ResourceVersion, c.ManagedFields = "", nil
		c.Status.Capacity, c.Status.Conditions = nil, nil
		c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
	}
	if !equality.Semantic.DeepEqual(old, claim) {
		return refuse(a, "node %q is not allowed to update fields other than status.quantity and status.conditions", node)
	}
	return nil
}
