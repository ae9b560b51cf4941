package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

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

func validateProjected(s *corev1.ProjectedVolumeSource, anyTokenPath bool, p *field.Path) field.ErrorList {
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
			if !anyTokenPath {
				errs = append(errs, validateFileName(t.Path, p.Child("path"))...)
			}
		}
		if q, ok := one("clusterTrustBundle", src.ClusterTrustBundle != nil); ok {
			errs = append(errs, required(q.Child("path"), src.ClusterTrustBundle.Path)...)
			errs = append(errs, validateFileName(src.ClusterTrustBundle.Path, q.Child("path"))...)
			unique(src.ClusterTrustBundle.Path, src.ClusterTrustBundle.Path)
		}
	}
	return errs
}
