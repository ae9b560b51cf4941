package resources

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestStorageClass(t *testing.T) {
	k := storageClassKind()
	good := &storagev1.StorageClass{ObjectMeta: clusterMeta("fast"), Provisioner: "disks.example.com", AllowedTopologies: []corev1.TopologySelectorTerm{
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "failure-domain.beta.kubernetes.io/zone", Values: []string{"a"}}}}}}
	setStorageClassDefaults(good)
	sameErrors(t, created(k, good))
	if *good.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete || *good.VolumeBindingMode != storagev1.VolumeBindingImmediate {
		t.Errorf("defaults: %+v", good)
	}
	if w := storageClassWarnings(good); len(w) != 1 || !strings.HasPrefix(w[0], "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17") {
		t.Errorf("warnings %q", w)
	}
	bad := good.DeepCopy()
	bad.Provisioner, bad.ReclaimPolicy, bad.VolumeBindingMode = "", ptr.To(corev1.PersistentVolumeReclaimRecycle), ptr.To(storagev1.VolumeBindingMode("Later"))
	bad.Parameters = map[string]string{"": "x"}
	expression := corev1.TopologySelectorLabelRequirement{Key: "zone", Values: []string{"a", "a"}}
	bad.AllowedTopologies = []corev1.TopologySelectorTerm{
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{expression, {Key: "zone"}}},
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"b"}}}},
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"b"}}}},
	}
	sameErrors(t, created(k, bad),
		"provisioner: Required value",
		`parameters: Invalid value: "": field can not be empty.`,
		`reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`,
		`volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"`,
		`allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"`,
		"allowedTopologies[0].matchLabelExpressions[1].values: Required value",
		`allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"`,
		`allowedTopologies[2].matchLabelExpressions: Duplicate value: ""`)
	other := good.DeepCopy()
	other.Provisioner, other.VolumeBindingMode = "other", ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	other.AllowVolumeExpansion = ptr.To(true)
	sameErrors(t, updated(k.Strategy, other, good),
		`provisioner: Invalid value: "other": field is immutable`,
		`volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`)
	other.Annotations = map[string]string{defaultClassAnnotation: "true"}
	sameCells(t, k, other, "fast (default)", "other", "Delete", "WaitForFirstConsumer", true, "<unknown>")
}

func TestCSINode(t *testing.T) {
	k := csiNodeKind()
	node := func(drivers ...storagev1.CSINodeDriver) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: clusterMeta("n"), Spec: storagev1.CSINodeSpec{Drivers: drivers}}
	}
	limit := func(n int32) *storagev1.VolumeNodeResources { return &storagev1.VolumeNodeResources{Count: &n} }
	old := node(storagev1.CSINodeDriver{Name: "a.example.com", NodeID: "i-1", TopologyKeys: []string{"zone"}, Allocatable: limit(8)})
	sameErrors(t, created(k, old))
	sameCells(t, k, old, "n", int64(1), "<unknown>")
	sameErrors(t, created(k, node(
		storagev1.CSINodeDriver{Name: "a", NodeID: "", TopologyKeys: []string{"x", "x"}, Allocatable: limit(-1)},
		storagev1.CSINodeDriver{Name: "a", NodeID: strings.Repeat("i", 257)})),
		"spec.drivers[0].nodeID: Required value",
		"spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
		`spec.drivers[0]: Duplicate value: "x"`,
		`spec.drivers[1].nodeID: Invalid value: "`+strings.Repeat("i", 257)+`": must be 256 characters or less`,
		`spec.drivers[1].name: Duplicate value: "a"`)
	more := old.DeepCopy()
	more.Spec.Drivers[0].Allocatable = limit(9)
	sameErrors(t, updated(k.Strategy, more, old))
	more.Spec.Drivers[0].NodeID = "i-2"
	if errs := updated(k.Strategy, more, old); len(errs) != 1 || errs[0].Field != "spec.drivers" || errs[0].Detail != "field is immutable" {
		t.Errorf("%v", errs)
	}
}

func TestCSIDriver(t *testing.T) {
	k := csiDriverKind()
	good := &storagev1.CSIDriver{ObjectMeta: clusterMeta("disks.example.com"), Spec: storagev1.CSIDriverSpec{
		TokenRequests: []storagev1.TokenRequest{{Audience: "a"}, {Audience: "b"}}, PreventPodSchedulingIfMissing: ptr.To(true)}}
	setCSIDriverDefaults(good)
	sameErrors(t, created(k, good))
	if good.Spec.PreventPodSchedulingIfMissing != nil {
		t.Error("a field whose gate is off is kept")
	}
	if w := csiDriverWarnings(good, nil); len(w) != 1 || w[0] != tokensInSecretsWarning {
		t.Errorf("warnings %q", w)
	}
	sameCells(t, k, good, "disks.example.com", true, false, false, "a,b", false, "Persistent", "<unknown>")
	bad := good.DeepCopy()
	bad.Spec.AttachRequired, bad.Spec.FSGroupPolicy = nil, ptr.To(storagev1.FSGroupPolicy("Maybe"))
	bad.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "a", ExpirationSeconds: ptr.To[int64](1)}, {Audience: "a"}, {Audience: "b", ExpirationSeconds: ptr.To[int64](1<<32 + 1)}}
	bad.Spec.VolumeLifecycleModes, bad.Spec.NodeAllocatableUpdatePeriodSeconds = []storagev1.VolumeLifecycleMode{"Never"}, ptr.To[int64](9)
	sameErrors(t, created(k, bad),
		"spec.attachedRequired: Required value",
		`spec.fsGroupPolicy: Unsupported value: "Maybe": supported values: "File", "None", "ReadWriteOnceWithFSType"`,
		"spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
		`spec.tokenRequests[1].audience: Duplicate value: "a"`,
		"spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
		`spec.volumeLifecycleModes: Unsupported value: "Never": supported values: "Persistent", "Ephemeral"`,
		"spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds")
	changed := good.DeepCopy()
	changed.Spec.StorageCapacity, changed.Spec.AttachRequired = ptr.To(true), ptr.To(false)
	sameErrors(t, updated(k.Strategy, changed, good), "spec.attachedRequired: Invalid value: false: field is immutable")
	if changed.Generation != good.Generation+1 {
		t.Errorf("generation %d", changed.Generation)
	}
}

func TestVolumeAttachment(t *testing.T) {
	k := volumeAttachmentKind()
	good := &storagev1.VolumeAttachment{ObjectMeta: clusterMeta("a"), Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "disks.example.com", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	sameErrors(t, created(k, good))
	if good.Status.Attached {
		t.Error("a new attachment is attached")
	}
	status := good.DeepCopy()
	status.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachError: &storagev1.VolumeError{Message: "m", ErrorCode: ptr.To[int32](-1)}}
	status.Spec.NodeName = "elsewhere"
	sameErrors(t, updated(k.Status, status, good), "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive")
	sameCells(t, k, status, "a", "disks.example.com", "pv", "n", true, "<unknown>")
	bad := good.DeepCopy()
	bad.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{}
	sameErrors(t, created(k, bad), "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	bad.Spec.Source.PersistentVolumeName = nil
	bad.Spec.Source.InlineVolumeSpec.StorageClassName = "x"
	sameErrors(t, created(k, bad),
		"spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
		"spec.source.inlineVolumeSpec.accessModes: Required value",
		"spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes")
}

func TestCSIStorageCapacity(t *testing.T) {
	k := csiStorageCapacityKind()
	good := &storagev1.CSIStorageCapacity{ObjectMeta: objectMeta("c"), StorageClassName: "fast", Capacity: ptr.To(resource.MustParse("3Gi")),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}}
	sameErrors(t, created(k, good))
	sameCells(t, k, good, "c", "fast", "3Gi")
	bad := good.DeepCopy()
	bad.StorageClassName, bad.Capacity = "other", ptr.To(resource.MustParse("-1"))
	sameErrors(t, updated(k.Strategy, bad, good),
		`capacity: Invalid value: "-1": must be greater than or equal to 0`,
		`storageClassName: Invalid value: "other": field is immutable`)
}
