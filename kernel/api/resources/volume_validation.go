package resources

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func (v *specValidator) validateVolumes(podName string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range v.spec.Volumes {
		vol, p := &v.spec.Volumes[i], at.Index(i)
		bad := validateVolumeSource(&vol.VolumeSource, p)
		if vol.Name == "" {
			bad = append(bad, field.Required(p.Child("name"), ""))
		} else {
			bad = append(bad, invalidAll(p.Child("name"), vol.Name, validation.IsDNS1123Label(vol.Name))...)
		}
		if _, ok := v.volumes[vol.Name]; ok {
			bad = append(bad, field.Duplicate(p.Child("name"), vol.Name))
		}
		if vol.Ephemeral != nil && podName != "" && vol.Name != "" {
			claim := podName + "-" + vol.Name
			for _, msg := range apivalidation.NameIsDNSSubdomain(claim, false) {
				bad = append(bad, field.Invalid(p.Child("name"), vol.Name, fmt.Sprintf("PVC name %q: %v", claim, msg)))
			}
		}
		if len(bad) == 0 {
			v.volumes[vol.Name] = &vol.VolumeSource
		}
		errs = append(errs, bad...)
		if c := vol.PersistentVolumeClaim; c != nil && podName != "" && slices.ContainsFunc(v.spec.Volumes, func(o corev1.Volume) bool {
			return o.Ephemeral != nil && podName+"-"+o.Name == c.ClaimName
		}) {
			errs = append(errs, field.Invalid(p.Child("persistentVolumeClaim", "claimName"), c.ClaimName, "must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return errs
}

// sourceCheck is one type of volume: present or not, and its rule.
type sourceCheck struct {
	name  string
	set   bool
	check func(p *field.Path) field.ErrorList
}

// exactlyOne runs the first of the sources that are set and forbids others.
func exactlyOne(at *field.Path, sources []sourceCheck) field.ErrorList {
	var errs field.ErrorList
	n := 0
	for _, s := range sources {
		if !s.set {
			continue
		}
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(at.Child(s.name), "may not specify more than 1 volume type"))
		} else if s.check != nil {
			name := s.name
			if name == "gcePersistentDisk" {
				// Upstream's errors keep the field's first name.
				name = "persistentDisk"
			}
			errs = append(errs, s.check(at.Child(name))...)
		}
	}
	if n == 0 {
		errs = append(errs, field.Required(at, "must specify a volume type"))
	}
	return errs
}

// need is a rule that wants the named fields, given as name and value by turns.
func need(fields ...string) func(*field.Path) field.ErrorList {
	return func(p *field.Path) field.ErrorList {
		var errs field.ErrorList
		for i := 0; i+1 < len(fields); i += 2 {
			errs = append(errs, required(p.Child(fields[i]), fields[i+1])...)
		}
		return errs
	}
}

func validateVolumeSource(s *corev1.VolumeSource, at *field.Path) field.ErrorList {
	// The common ones go without the table, which costs allocations.
	switch {
	case s.EmptyDir != nil && *s == (corev1.VolumeSource{EmptyDir: s.EmptyDir}):
		if l := s.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			return field.ErrorList{field.Forbidden(at.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity")}
		}
		return nil
	case s.Projected != nil && *s == (corev1.VolumeSource{Projected: s.Projected}):
		return validateProjected(s.Projected, at.Child("projected"))
	}
	return exactlyOne(at, volumeChecks(s))
}

func volumeChecks(s *corev1.VolumeSource) []sourceCheck {
	return []sourceCheck{
		{"emptyDir", s.EmptyDir != nil, nil},
		{"hostPath", s.HostPath != nil, func(p *field.Path) field.ErrorList { return validateHostPath(s.HostPath, p) }},
		{"gitRepo", s.GitRepo != nil, func(p *field.Path) field.ErrorList {
			return append(need("repository", s.GitRepo.Repository)(p), validateDescending(s.GitRepo.Directory, p.Child("directory"))...)
		}},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, func(p *field.Path) field.ErrorList {
			return validateDisk("pdName", s.GCEPersistentDisk.PDName, s.GCEPersistentDisk.Partition, p)
		}},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, func(p *field.Path) field.ErrorList {
			return validateDisk("volumeID", s.AWSElasticBlockStore.VolumeID, s.AWSElasticBlockStore.Partition, p)
		}},
		{"secret", s.Secret != nil, func(p *field.Path) field.ErrorList {
			return append(need("secretName", s.Secret.SecretName)(p), validateFiles(s.Secret.DefaultMode, s.Secret.Items, p)...)
		}},
		{"nfs", s.NFS != nil, func(p *field.Path) field.ErrorList { return validateNFS(s.NFS, p) }},
		{"iscsi", s.ISCSI != nil, func(p *field.Path) field.ErrorList {
			return validatePodISCSI(s.ISCSI, p)
		}},
		{"glusterfs", s.Glusterfs != nil, func(p *field.Path) field.ErrorList {
			return need("endpoints", s.Glusterfs.EndpointsName, "path", s.Glusterfs.Path)(p)
		}},
		{"flocker", s.Flocker != nil, func(p *field.Path) field.ErrorList { return validateFlocker(s.Flocker, p) }},
		{"persistentVolumeClaim", s.PersistentVolumeClaim != nil, func(p *field.Path) field.ErrorList {
			return need("claimName", s.PersistentVolumeClaim.ClaimName)(p)
		}},
		{"rbd", s.RBD != nil, func(p *field.Path) field.ErrorList { return validateRBD(s.RBD.CephMonitors, s.RBD.RBDImage, p) }},
		{"cinder", s.Cinder != nil, func(p *field.Path) field.ErrorList {
			return append(need("volumeID", s.Cinder.VolumeID)(p), secretName(s.Cinder.SecretRef, p.Child("secretRef"))...)
		}},
		{"cephfs", s.CephFS != nil, func(p *field.Path) field.ErrorList { return validateMonitors(s.CephFS.Monitors, p) }},
		{"quobyte", s.Quobyte != nil, func(p *field.Path) field.ErrorList {
			return validateQuobyte(s.Quobyte, p)
		}},
		{"downwardAPI", s.DownwardAPI != nil, func(p *field.Path) field.ErrorList {
			return append(validateMode(s.DownwardAPI.DefaultMode, p.Child("defaultMode")), validateDownward(s.DownwardAPI.Items, p)...)
		}},
		{"fc", s.FC != nil, func(p *field.Path) field.ErrorList { return validateFC(s.FC, p) }},
		{"flexVolume", s.FlexVolume != nil, func(p *field.Path) field.ErrorList { return validateFlex(s.FlexVolume.Driver, s.FlexVolume.Options, p) }},
		{"configMap", s.ConfigMap != nil, func(p *field.Path) field.ErrorList {
			return append(need("name", s.ConfigMap.Name)(p), validateFiles(s.ConfigMap.DefaultMode, s.ConfigMap.Items, p)...)
		}},
		{"azureFile", s.AzureFile != nil, func(p *field.Path) field.ErrorList {
			return need("secretName", s.AzureFile.SecretName, "shareName", s.AzureFile.ShareName)(p)
		}},
		{"vsphereVolume", s.VsphereVolume != nil, func(p *field.Path) field.ErrorList { return need("volumePath", s.VsphereVolume.VolumePath)(p) }},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, func(p *field.Path) field.ErrorList { return need("pdID", s.PhotonPersistentDisk.PdID)(p) }},
		{"portworxVolume", s.PortworxVolume != nil, func(p *field.Path) field.ErrorList { return need("volumeID", s.PortworxVolume.VolumeID)(p) }},
		{"azureDisk", s.AzureDisk != nil, func(p *field.Path) field.ErrorList {
			return validateAzureDisk(s.AzureDisk, p)
		}},
		{"storageos", s.StorageOS != nil, func(p *field.Path) field.ErrorList {
			return append(need("volumeName", s.StorageOS.VolumeName)(p), secretName(s.StorageOS.SecretRef, p.Child("secretRef"))...)
		}},
		{"projected", s.Projected != nil, func(p *field.Path) field.ErrorList { return validateProjected(s.Projected, p) }},
		{"scaleIO", s.ScaleIO != nil, func(p *field.Path) field.ErrorList {
			return need("gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System, "volumeName", s.ScaleIO.VolumeName)(p)
		}},
		{"csi", s.CSI != nil, func(p *field.Path) field.ErrorList { return validateCSI(s.CSI, p) }},
		{"ephemeral", s.Ephemeral != nil, func(p *field.Path) field.ErrorList {
			t := s.Ephemeral.VolumeClaimTemplate
			if t == nil {
				return field.ErrorList{field.Required(p.Child("volumeClaimTemplate"), "")}
			}
			return append(validateTemplateMeta(&t.ObjectMeta, p.Child("volumeClaimTemplate", "metadata")), validateClaimSpec(&t.Spec, p.Child("volumeClaimTemplate", "spec"))...)
		}},
		{"image", s.Image != nil, func(p *field.Path) field.ErrorList {
			errs := need("reference", s.Image.Reference)(p)
			return append(errs, oneOf(p.Child("pullPolicy"), s.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
		}},
	}
}

// validatePersistentSource checks the one source of a persistent volume.
func validatePersistentSource(v *corev1.PersistentVolume) field.ErrorList {
	s := &v.Spec.PersistentVolumeSource
	return exactlyOne(specPath, []sourceCheck{
		{"hostPath", s.HostPath != nil, func(p *field.Path) field.ErrorList { return validateHostPath(s.HostPath, p) }},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, func(p *field.Path) field.ErrorList {
			return validateDisk("pdName", s.GCEPersistentDisk.PDName, s.GCEPersistentDisk.Partition, p)
		}},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, func(p *field.Path) field.ErrorList {
			return validateDisk("volumeID", s.AWSElasticBlockStore.VolumeID, s.AWSElasticBlockStore.Partition, p)
		}},
		{"glusterfs", s.Glusterfs != nil, func(p *field.Path) field.ErrorList {
			errs := need("endpoints", s.Glusterfs.EndpointsName, "path", s.Glusterfs.Path)(p)
			if n := s.Glusterfs.EndpointsNamespace; n != nil {
				errs = append(errs, invalidAll(p.Child("endpointsNamespace"), *n, apivalidation.ValidateNamespaceName(*n, false))...)
			}
			return errs
		}},
		{"flocker", s.Flocker != nil, func(p *field.Path) field.ErrorList { return validateFlocker(s.Flocker, p) }},
		{"nfs", s.NFS != nil, func(p *field.Path) field.ErrorList { return validateNFS(s.NFS, p) }},
		{"rbd", s.RBD != nil, func(p *field.Path) field.ErrorList { return validateRBD(s.RBD.CephMonitors, s.RBD.RBDImage, p) }},
		{"quobyte", s.Quobyte != nil, func(p *field.Path) field.ErrorList {
			return validateQuobyte(s.Quobyte, p)
		}},
		{"cephfs", s.CephFS != nil, func(p *field.Path) field.ErrorList { return validateMonitors(s.CephFS.Monitors, p) }},
		{"iscsi", s.ISCSI != nil, func(p *field.Path) field.ErrorList {
			return validatePersistentISCSI(v.Name, s.ISCSI, p)
		}},
		{"cinder", s.Cinder != nil, func(p *field.Path) field.ErrorList { return need("volumeID", s.Cinder.VolumeID)(p) }},
		{"fc", s.FC != nil, func(p *field.Path) field.ErrorList { return validateFC(s.FC, p) }},
		{"flexVolume", s.FlexVolume != nil, func(p *field.Path) field.ErrorList { return validateFlex(s.FlexVolume.Driver, s.FlexVolume.Options, p) }},
		{"azureFile", s.AzureFile != nil, func(p *field.Path) field.ErrorList {
			return validatePersistentAzureFile(s.AzureFile, p)
		}},
		{"vsphereVolume", s.VsphereVolume != nil, func(p *field.Path) field.ErrorList { return need("volumePath", s.VsphereVolume.VolumePath)(p) }},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, func(p *field.Path) field.ErrorList { return need("pdID", s.PhotonPersistentDisk.PdID)(p) }},
		{"portworxVolume", s.PortworxVolume != nil, func(p *field.Path) field.ErrorList { return need("volumeID", s.PortworxVolume.VolumeID)(p) }},
		{"azureDisk", s.AzureDisk != nil, func(p *field.Path) field.ErrorList {
			return validateAzureDisk(s.AzureDisk, p)
		}},
		{"scaleIO", s.ScaleIO != nil, func(p *field.Path) field.ErrorList {
			return need("gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System, "volumeName", s.ScaleIO.VolumeName)(p)
		}},
		{"local", s.Local != nil, func(p *field.Path) field.ErrorList {
			errs := required(p.Child("path"), s.Local.Path)
			if s.Local.Path != "" {
				errs = append(errs, validateNoBacksteps(s.Local.Path, p.Child("path"))...)
			}
			if v.Spec.NodeAffinity == nil {
				errs = append(errs, field.Required(specPath.Child("nodeAffinity"), "Local volume requires node affinity"))
			}
			return errs
		}},
		{"storageos", s.StorageOS != nil, func(p *field.Path) field.ErrorList { return need("volumeName", s.StorageOS.VolumeName)(p) }},
		{"csi", s.CSI != nil, func(p *field.Path) field.ErrorList {
			return validatePersistentCSI(s.CSI, p)
		}},
	})
}

func validateHostPath(h *corev1.HostPathVolumeSource, p *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(p.Child("path"), "")}
	}
	errs := validateNoBacksteps(h.Path, p.Child("path"))
	if t := h.Type; t != nil {
		errs = append(errs, supported(p.Child("type"), *t, corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
			corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)...)
	}
	return errs
}

func validateDisk(name, value string, partition int32, p *field.Path) field.ErrorList {
	errs := required(p.Child(name), value)
	if partition < 0 || partition > 255 {
		errs = append(errs, field.Invalid(p.Child("partition"), partition, validation.InclusiveRangeError(1, 255)))
	}
	return errs
}

func validateNFS(n *corev1.NFSVolumeSource, p *field.Path) field.ErrorList {
	errs := need("server", n.Server, "path", n.Path)(p)
	if !path.IsAbs(n.Path) {
		errs = append(errs, field.Invalid(p.Child("path"), n.Path, "must be an absolute path"))
	}
	return errs
}

func validateFlocker(f *corev1.FlockerVolumeSource, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case f.DatasetName == "" && f.DatasetUUID == "":
		return field.ErrorList{field.Required(p, "one of datasetName and datasetUUID is required")}
	case f.DatasetName != "" && f.DatasetUUID != "":
		errs = append(errs, field.Invalid(p, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(f.DatasetName, "/") {
		errs = append(errs, field.Invalid(p.Child("datasetName"), f.DatasetName, "must not contain '/'"))
	}
	return errs
}

func validateFC(f *corev1.FCVolumeSource, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch wwns, wwids := len(f.TargetWWNs), len(f.WWIDs); {
	case wwns == 0 && wwids == 0:
		errs = append(errs, field.Required(p.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	case wwns > 0 && wwids > 0:
		errs = append(errs, field.Invalid(p.Child("targetWWNs"), f.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	if len(f.TargetWWNs) > 0 {
		if f.Lun == nil {
			errs = append(errs, field.Required(p.Child("lun"), "lun is required if targetWWNs is specified"))
		} else {
			errs = append(errs, inRange(p.Child("lun"), f.Lun, int64(*f.Lun), 0, 255)...)
		}
	}
	return errs
}

func validateMonitors(monitors []string, p *field.Path) field.ErrorList {
	if len(monitors) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(p.Child("monitors"), "")}
}

func validateRBD(monitors []string, image string, p *field.Path) field.ErrorList {
	return append(validateMonitors(monitors, p), required(p.Child("image"), image)...)
}

func validateDriver(name string, p *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(p, "")}
	}
	var errs field.ErrorList
	if len(name) > 63 {
		errs = append(errs, field.TooLong(p, name, 63))
	}
	return append(errs, invalidAll(p, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

func validateFiles(mode *int32, items []corev1.KeyToPath, p *field.Path) field.ErrorList {
	errs := validateMode(mode, p.Child("defaultMode"))
	for i := range items {
		k, at := &items[i], p.Child("items").Index(i)
		errs = append(errs, need("key", k.Key, "path", k.Path)(at)...)
		errs = append(errs, validateFileName(k.Path, at.Child("path"))...)
		errs = append(errs, validateMode(k.Mode, at.Child("mode"))...)
	}
	return errs
}

func validateMode(mode *int32, p *field.Path) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(p, *mode, badFileMode)}
}

func validateDownward(items []corev1.DownwardAPIVolumeFile, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range items {
		f, at := &items[i], p
		errs = append(errs, required(at.Child("path"), f.Path)...)
		errs = append(errs, validateFileName(f.Path, at.Child("path"))...)
		switch {
		case f.FieldRef != nil:
			errs = append(errs, validateFieldRef(f.FieldRef, volumeFields, at.Child("fieldRef"))...)
			if f.ResourceFieldRef != nil {
				errs = append(errs, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case f.ResourceFieldRef != nil:
			errs = append(errs, validateResourceFieldRef(f.ResourceFieldRef, at.Child("resourceFieldRef"), true)...)
		default:
			errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
		}
		errs = append(errs, validateMode(f.Mode, at.Child("mode"))...)
	}
	return errs
}

func validateProjected(s *corev1.ProjectedVolumeSource, p *field.Path) field.ErrorList {
	errs := validateMode(s.DefaultMode, p.Child("defaultMode"))
	var paths []string
	unique := func(path, source string) {
		if path == "" {
			return
		}
		if slices.Contains(paths, path) {
			errs = append(errs, field.Invalid(p, source, "conflicting duplicate paths"))
		}
		paths = append(paths, path)
	}
	for i := range s.Sources {
		src, at := &s.Sources[i], p.Child("sources").Index(i)
		n := 0
		one := func(name string, set bool) (*field.Path, bool) {
			if !set {
				return nil, false
			}
			if n++; n == 2 {
				errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
			}
			return at.Child(name), true
		}
		if q, ok := one("secret", src.Secret != nil); ok {
			errs = append(errs, required(q.Child("name"), src.Secret.Name)...)
			errs = append(errs, validateFiles(nil, src.Secret.Items, q)...)
			for _, k := range src.Secret.Items {
				unique(k.Path, src.Secret.Name)
			}
		}
		if q, ok := one("configMap", src.ConfigMap != nil); ok {
			errs = append(errs, required(q.Child("name"), src.ConfigMap.Name)...)
			errs = append(errs, validateFiles(nil, src.ConfigMap.Items, q)...)
			for _, k := range src.ConfigMap.Items {
				unique(k.Path, src.ConfigMap.Name)
			}
		}
		if q, ok := one("downwardAPI", src.DownwardAPI != nil); ok {
			errs = append(errs, validateDownward(src.DownwardAPI.Items, q)...)
			for _, f := range src.DownwardAPI.Items {
				unique(f.Path, f.Path)
			}
		}
		if q, ok := one("serviceAccountToken", src.ServiceAccountToken != nil); ok {
			t := src.ServiceAccountToken
			switch seconds := ptr.Deref(t.ExpirationSeconds, 3600); {
			case seconds < 600:
				errs = append(errs, field.Invalid(q.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"))
			case seconds > 1<<32:
				errs = append(errs, field.Invalid(q.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"))
			}
			errs = append(errs, required(p.Child("path"), t.Path)...)
			errs = append(errs, validateFileName(t.Path, p.Child("path"))...)
		}
		if q, ok := one("clusterTrustBundle", src.ClusterTrustBundle != nil); ok {
			errs = append(errs, required(q.Child("path"), src.ClusterTrustBundle.Path)...)
			errs = append(errs, validateFileName(src.ClusterTrustBundle.Path, q.Child("path"))...)
			unique(src.ClusterTrustBundle.Path, src.ClusterTrustBundle.Path)
		}
	}
	return errs
}

func (v *specValidator) validateMounts(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	mounts := at.Child("volumeMounts")
	for i := range c.VolumeMounts {
		m, p := &c.VolumeMounts[i], mounts.Index(i)
		errs = append(errs, required(p.Child("name"), m.Name)...)
		if v.volumes[m.Name] == nil {
			errs = append(errs, field.NotFound(p.Child("name"), m.Name))
		}
		errs = append(errs, required(p.Child("mountPath"), m.MountPath)...)
		if slices.ContainsFunc(c.VolumeMounts[:i], func(o corev1.VolumeMount) bool { return o.MountPath == m.MountPath }) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		for _, d := range c.VolumeDevices {
			if d.Name == m.Name {
				errs = append(errs, field.Invalid(p.Child("name"), m.Name, "must not already exist in volumeDevices"))
			}
			if d.DevicePath == m.MountPath {
				errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
			}
		}
		if m.SubPath != "" {
			errs = append(errs, validateDescending(m.SubPath, mounts.Child("subPath"))...)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				errs = append(errs, field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			errs = append(errs, validateDescending(m.SubPathExpr, mounts.Child("subPathExpr"))...)
		}
		if g := m.MountPropagation; g != nil {
			errs = append(errs, supported(mounts.Child("mountPropagation"), *g, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
			if *g == corev1.MountPropagationBidirectional && !privileged(c) {
				errs = append(errs, field.Forbidden(mounts.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
			}
		}
		if r := m.RecursiveReadOnly; r != nil {
			q := mounts.Child("recursiveReadOnly")
			errs = append(errs, supported(q, *r, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)...)
			if *r != corev1.RecursiveReadOnlyDisabled && !m.ReadOnly {
				errs = append(errs, field.Forbidden(q, "may only be specified when readOnly is true"))
			}
			if g := ptr.Deref(m.MountPropagation, corev1.MountPropagationNone); *r != corev1.RecursiveReadOnlyDisabled && g != corev1.MountPropagationNone {
				errs = append(errs, field.Forbidden(q, "may only be specified when mountPropagation is None or not specified"))
			}
		}
	}
	for i, d := range c.VolumeDevices {
		p := at.Child("volumeDevices").Index(i)
		errs = append(errs, need("name", d.Name, "devicePath", d.DevicePath)(p)...)
		switch src := v.volumes[d.Name]; {
		case src == nil:
			errs = append(errs, field.NotFound(p.Child("name"), d.Name))
		case src.PersistentVolumeClaim == nil && src.Ephemeral == nil:
			errs = append(errs, field.Invalid(p.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		for _, o := range c.VolumeDevices[:i] {
			if o.Name == d.Name {
				errs = append(errs, field.Invalid(p.Child("name"), d.Name, "must be unique"))
			}
			if o.DevicePath == d.DevicePath {
				errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "must be unique"))
			}
		}
		for _, m := range c.VolumeMounts {
			if m.Name == d.Name {
				errs = append(errs, field.Invalid(p.Child("name"), d.Name, "must not already exist in volumeMounts"))
			}
			if m.MountPath == d.DevicePath {
				errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts"))
			}
		}
		if slices.Contains(strings.Split(d.DevicePath, "/"), "..") {
			errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		}
	}
	return errs
}

// validateNoBacksteps refuses a path with a part "..".
func validateNoBacksteps(value string, p *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(value, "/"), "..") {
		return field.ErrorList{field.Invalid(p, value, "must not contain '..'")}
	}
	return nil
}

// validateDescending wants a relative path that stays below.
func validateDescending(value string, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(value) {
		errs = append(errs, field.Invalid(p, value, "must be a relative path"))
	}
	return append(errs, validateNoBacksteps(value, p)...)
}

// validateFileName is validateDescending and keeps ".." for the volumes' own
// files.
func validateFileName(value string, p *field.Path) field.ErrorList {
	errs := validateDescending(value, p)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		errs = append(errs, field.Invalid(p, value, "must not start with '..'"))
	}
	return errs
}

// validateTemplateMeta: a claim made from a pod's volume gets its name from the
// two, and labels and annotations from the template.
func validateTemplateMeta(m *metav1.ObjectMeta, p *field.Path) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(m.Annotations, p.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(m.Labels, p.Child("labels"))...)
	rest := m.DeepCopy()
	rest.Annotations, rest.Labels = nil, nil
	v := reflect.ValueOf(*rest)
	for i := range v.NumField() {
		if f := v.Type().Field(i); !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			errs = append(errs, field.Forbidden(p.Child(name), "cannot be set"))
		}
	}
	return errs
}
