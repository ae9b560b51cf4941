package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func persistentVolumeColumns() []metav1.TableColumnDefinition {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Capacity", "string", "", spec["capacity"], 0),
		column("Access Modes", "string", "", spec["accessModes"], 0),
		column("Reclaim Policy", "string", "", spec["persistentVolumeReclaimPolicy"], 0),
		column("Status", "string", "", status["phase"], 0),
		column("Claim", "string", "", spec["claimRef"], 0),
		column("StorageClass", "string", "", "StorageClass of the pv", 0),
		column("VolumeAttributesClass", "string", "", "VolumeAttributesClass of the pv", 0),
		column("Reason", "string", "", status["reason"], 0),
		ageColumn(),
		column("VolumeMode", "string", "", spec["volumeMode"], 1),
	}
}

func persistentVolumeCells(v *corev1.PersistentVolume) []any {
	claim := ""
	if r := v.Spec.ClaimRef; r != nil {
		claim = r.Namespace + "/" + r.Name
	}
	phase := string(v.Status.Phase)
	if v.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	class := v.Spec.StorageClassName
	if old, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		class = old
	}
	size := v.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		v.Name, size.String(), accessModes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		class, unsetOr(v.Spec.VolumeAttributesClassName), v.Status.Reason, ageCell(v.CreationTimestamp), unsetOr(v.Spec.VolumeMode),
	}
}

func persistentVolumeClaimColumns() []metav1.TableColumnDefinition {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "string", "", status["phase"], 0),
		column("Volume", "string", "", spec["volumeName"], 0),
		column("Capacity", "string", "", status["capacity"], 0),
		column("Access Modes", "string", "", status["accessModes"], 0),
		column("StorageClass", "string", "", "StorageClass of the pvc", 0),
		column("VolumeAttributesClass", "string", "", "VolumeAttributesClass of the pvc", 0),
		ageColumn(),
		column("VolumeMode", "string", "", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeMode"], 1),
	}
}

func persistentVolumeClaimCells(c *corev1.PersistentVolumeClaim) []any {
	phase := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		size := c.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = size.String(), accessModes(c.Status.AccessModes)
	}
	class := ""
	if old, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		class = old
	} else if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	return []any{
		c.Name, phase, c.Spec.VolumeName, capacity, modes, class,
		unsetOr(c.Spec.VolumeAttributesClassName), ageCell(c.CreationTimestamp), unsetOr(c.Spec.VolumeMode),
	}
}

func unsetOr[S ~string](s *S) string {
	if s == nil {
		return "<unset>"
	}
	return string(*s)
}

// accessModes abbreviates modes, in a fixed order.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}
