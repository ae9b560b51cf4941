// Package image builds small container images from static binaries, without a
// container engine: one layer, one architecture, the same bytes for the same
// input. The sandbox (pause) image, the example images and the images of the
// end-to-end tests are made with it.
//
// It must not import kernel.
package image
