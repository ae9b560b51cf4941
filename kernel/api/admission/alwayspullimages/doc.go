// Package alwayspullimages is the admission plugin AlwaysPullImages: every
// container of every pod, and every image volume, has the pull policy Always, so
// that the right to pull an image is asked for anew for each pod.
package alwayspullimages
