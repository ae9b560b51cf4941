package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func setVolumeDefaults(v *corev1.Volume) {
	src := &v.VolumeSource
	mode := func(m **int32) {
		if *m == nil {
			*m = ptr.To(corev1.ConfigMapVolumeSourceDefaultMode)
		}
	}
	switch {
	case src.ConfigMap != nil:
		mode(&src.ConfigMap.DefaultMode)
	case src.Secret != nil:
		mode(&src.Secret.DefaultMode)
	case src.Projected != nil:
		mode(&src.Projected.DefaultMode)
		setProjectionDefaults(src.Projected.Sources)
	case src.DownwardAPI != nil:
		mode(&src.DownwardAPI.DefaultMode)
		setDownwardDefaults(src.DownwardAPI.Items)
	case src.HostPath != nil:
		setHostPathDefaults(src.HostPath)
	case src.EmptyDir != nil, src.PersistentVolumeClaim != nil:
	case src.Image != nil:
		if src.Image.PullPolicy == "" {
			src.Image.PullPolicy = defaultPullPolicy(src.Image.Reference)
		}
	case src.ISCSI != nil:
		if src.ISCSI.ISCSIInterface == "" {
			src.ISCSI.ISCSIInterface = "default"
		}
	case src.RBD != nil:
		setRBDDefaults(&src.RBD.RBDPool, &src.RBD.RadosUser, &src.RBD.Keyring)
	case src.AzureDisk != nil:
		setAzureDiskDefaults(src.AzureDisk)
	case src.ScaleIO != nil:
		setScaleIODefaults(&src.ScaleIO.StorageMode, &src.ScaleIO.FSType)
	case src.Ephemeral != nil:
		if src.Ephemeral.VolumeClaimTemplate != nil {
			setClaimSpecDefaults(&src.Ephemeral.VolumeClaimTemplate.Spec)
		}
	case ptr.AllPtrFieldsNil(src):
		src.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
}

func setProjectionDefaults(sources []corev1.VolumeProjection) {
	for i := range sources {
		p := &sources[i]
		if p.DownwardAPI != nil {
			setDownwardDefaults(p.DownwardAPI.Items)
		}
		if t := p.ServiceAccountToken; t != nil && t.ExpirationSeconds == nil {
			t.ExpirationSeconds = ptr.To[int64](3600)
		}
	}
}

func setDownwardDefaults(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			setFieldRefDefaults(items[i].FieldRef)
		}
	}
}

func setHostPathDefaults(h *corev1.HostPathVolumeSource) {
	if h.Type == nil {
		h.Type = ptr.To(corev1.HostPathUnset)
	}
}

func setRBDDefaults(pool, user, keyring *string) {
	orElse(pool, "rbd")
	orElse(user, "admin")
	orElse(keyring, "/etc/ceph/keyring")
}

func setScaleIODefaults(mode, fs *string) {
	orElse(mode, "ThinProvisioned")
	orElse(fs, "xfs")
}

func setAzureDiskDefaults(d *corev1.AzureDiskVolumeSource) {
	if d.CachingMode == nil {
		d.CachingMode = ptr.To(corev1.AzureDataDiskCachingReadWrite)
	}
	if d.Kind == nil {
		d.Kind = ptr.To(corev1.AzureSharedBlobDisk)
	}
	if d.FSType == nil {
		d.FSType = ptr.To("ext4")
	}
	if d.ReadOnly == nil {
		d.ReadOnly = ptr.To(false)
	}
}

func orElse(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
