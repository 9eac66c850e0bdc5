variable "name" {
  description = "Name of the allocation: a DNS label, unique among the live ones of the project."
  type        = string
  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", var.name))
    error_message = "The name must be a DNS label: lower-case letters, digits and hyphens, at most 63."
  }
}

variable "sku" {
  description = "SKU, as `gpuaas sku list` lists them."
  type        = string
}

variable "image" {
  description = "Image, as `gpuaas image list` lists them."
  type        = string
}

variable "gpu_count" {
  description = "Number of GPUs; the SKU says which numbers it allows."
  type        = number
  default     = 1
  validation {
    condition     = var.gpu_count >= 1 && floor(var.gpu_count) == var.gpu_count
    error_message = "The number of GPUs must be a whole number, at least 1."
  }
}

variable "ssh_keys" {
  description = "SSH public keys for the login: files, or names of stored keys. Empty: as `gpuaas launch` chooses."
  type        = list(string)
  default     = []
  validation {
    condition     = alltrue([for key in var.ssh_keys : !strcontains(key, "\n")])
    error_message = "A key is the path of a file or the name of a stored key, on one line."
  }
}

variable "region" {
  description = "Region. Empty: one where the allocation fits now."
  type        = string
  default     = ""
}

variable "project" {
  description = "Project. Empty: your only one."
  type        = string
  default     = ""
}

variable "labels" {
  description = "Labels of the allocation."
  type        = map(string)
  default     = {}
  validation {
    condition     = alltrue([for key, value in var.labels : !strcontains("${key}${value}", "\n")])
    error_message = "Labels have no line breaks."
  }
  validation {
    condition     = !contains(keys(var.labels), "terraform-resource")
    error_message = "The label terraform-resource is the module's: by it the allocation is released."
  }
}

variable "timeout_seconds" {
  description = "Longest wait for the login, in seconds; what is not up by then is released."
  type        = number
  default     = 2100
}

variable "command" {
  description = "The command line of the platform: a name in PATH, or a path."
  type        = string
  default     = "gpuaas"
}
