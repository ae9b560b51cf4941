package resources

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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

func validateVolumeSource(s *corev1.VolumeSource, allow PodAllowances, at *field.Path) field.ErrorList {
	// The common ones go without the table, which costs allocations.
	switch {
	case s.EmptyDir != nil && *s == (corev1.VolumeSource{EmptyDir: s.EmptyDir}):
		if l := s.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			return field.ErrorList{field.Forbidden(at.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity")}
		}
		return nil
	case s.Projected != nil && *s == (corev1.VolumeSource{Projected: s.Projected}):
		return validateProjected(s.Projected, allow.tokenPaths, at.Child("projected"))
	}
	return exactlyOne(at, volumeChecks(s, allow))
}

func volumeChecks(s *corev1.VolumeSource, allow PodAllowances) []sourceCheck {
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
		{"projected", s.Projected != nil, func(p *field.Path) field.ErrorList { return validateProjected(s.Projected, allow.tokenPaths, p) }},
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
