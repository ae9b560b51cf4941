package resources

import (
	"net"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Names of iSCSI nodes, in their three forms (RFC 3720, RFC 3980).
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.[[:alnum:].-]+:[^,;*&$|\s]+$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

// iscsi is what pods' and persistent volumes' sources have in common; unknown
// is what they say of a name of no form.
type iscsi struct {
	portal, iqn string
	lun         int32
	chap        bool
	secret      bool
	initiator   *string
	unknown     string
}

func validateISCSI(s iscsi, p *field.Path) field.ErrorList {
	errs := need("targetPortal", s.portal, "iqn", s.iqn)(p)
	name := func(value string, at *field.Path) {
		form := iscsiNames[value[:min(3, len(value))]]
		switch {
		case form == nil:
			errs = append(errs, field.Invalid(at, value, s.unknown))
		case !form.MatchString(value):
			errs = append(errs, field.Invalid(at, value, "must be valid format"))
		}
	}
	if s.iqn != "" {
		name(s.iqn, p.Child("iqn"))
	}
	errs = append(errs, inRange(p.Child("lun"), s.lun, int64(s.lun), 0, 255)...)
	if s.chap && !s.secret {
		errs = append(errs, field.Required(p.Child("secretRef"), ""))
	}
	if s.initiator != nil {
		name(*s.initiator, p.Child("initiatorname"))
	}
	return errs
}

func validatePodISCSI(s *corev1.ISCSIVolumeSource, p *field.Path) field.ErrorList {
	return validateISCSI(iscsi{s.TargetPortal, s.IQN, s.Lun, s.DiscoveryCHAPAuth || s.SessionCHAPAuth, s.SecretRef != nil, s.InitiatorName,
		"must be valid format starting with iqn, eui, or naa"}, p)
}

func validatePersistentISCSI(volume string, s *corev1.ISCSIPersistentVolumeSource, p *field.Path) field.ErrorList {
	errs := validateISCSI(iscsi{s.TargetPortal, s.IQN, s.Lun, s.DiscoveryCHAPAuth || s.SessionCHAPAuth, s.SecretRef != nil, s.InitiatorName,
		"must be valid format"}, p)
	if s.InitiatorName != nil && len(volume+":"+s.TargetPortal) > 64 {
		errs = append(errs, field.Invalid(p.Child("targetportal"), s.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if s.SecretRef != nil {
		errs = append(errs, required(p.Child("secretRef", "name"), s.SecretRef.Name)...)
	}
	return errs
}

func validateAzureDisk(d *corev1.AzureDiskVolumeSource, p *field.Path) field.ErrorList {
	errs := need("diskName", d.DiskName, "diskURI", d.DataDiskURI)(p)
	if m := d.CachingMode; m != nil {
		errs = append(errs, supported(p.Child("cachingMode"), *m, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if d.Kind == nil {
		return errs
	}
	errs = append(errs, supported(p.Child("kind"), *d.Kind, corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)...)
	prefix, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *d.Kind == corev1.AzureManagedDisk {
		prefix, form = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(d.DataDiskURI, prefix) {
		errs = append(errs, field.NotSupported(p.Child("diskURI"), d.DataDiskURI, []string{form}))
	}
	return errs
}

func validateQuobyte(q *corev1.QuobyteVolumeSource, p *field.Path) field.ErrorList {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	var errs field.ErrorList
	switch {
	case q.Registry == "":
		errs = append(errs, field.Required(p.Child("registry"), pairs))
	case len(q.Tenant) > 64:
		errs = append(errs, field.Required(p.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for _, pair := range strings.Split(q.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(p.Child("registry"), q.Registry, pairs))
			}
		}
	}
	return append(errs, required(p.Child("volume"), q.Volume)...)
}

// validateFlex keeps the options under Kubernetes' own names for itself.
func validateFlex(driver string, options map[string]string, p *field.Path) field.ErrorList {
	errs := required(p.Child("driver"), driver)
	for key := range options {
		space, _, _ := strings.Cut(key, "/")
		space = "." + strings.ToLower(space)
		if strings.HasSuffix(space, ".kubernetes.io") || strings.HasSuffix(space, ".k8s.io") {
			errs = append(errs, field.Invalid(p.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

// secretName wants a reference that is there to name its secret.
func secretName(r *corev1.LocalObjectReference, p *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	return required(p.Child("name"), r.Name)
}

func validateCSI(s *corev1.CSIVolumeSource, p *field.Path) field.ErrorList {
	return append(validateDriver(s.Driver, p.Child("driver")), secretName(s.NodePublishSecretRef, p.Child("nodePublishSecretRef"))...)
}

func validatePersistentCSI(s *corev1.CSIPersistentVolumeSource, p *field.Path) field.ErrorList {
	errs := append(validateDriver(s.Driver, p.Child("driver")), required(p.Child("volumeHandle"), s.VolumeHandle)...)
	for _, r := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", s.ControllerPublishSecretRef}, {"controllerExpandSecretRef", s.ControllerExpandSecretRef},
		{"nodePublishSecretRef", s.NodePublishSecretRef}, {"nodeExpandSecretRef", s.NodeExpandSecretRef},
	} {
		if r.ref != nil {
			errs = append(errs, need("name", r.ref.Name, "namespace", r.ref.Namespace)(p.Child(r.name))...)
		}
	}
	return errs
}

func validatePersistentAzureFile(s *corev1.AzureFilePersistentVolumeSource, p *field.Path) field.ErrorList {
	errs := need("secretName", s.SecretName, "shareName", s.ShareName)(p)
	if ptr.Deref(s.SecretNamespace, "x") == "" {
		errs = append(errs, field.Required(p.Child("secretNamespace"), ""))
	}
	return errs
}
