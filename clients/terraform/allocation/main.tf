# An allocation that lives as long as this resource: launched, waited for until its login works, and released. Terraform's
# own terraform_data runs the command line `gpuaas`, so that no provider has to be installed. The command line finds the API
# and the credential as it does in a shell: GPUAAS_API and GPUAAS_TOKEN_FILE, or the context of `gpuaas login`.

terraform {
  required_version = ">= 1.4"
}

resource "terraform_data" "allocation" {
  # a release needs what the launch was told, and sees nothing but this
  input = {
    command = var.command
    name    = var.name
    project = var.project
    seconds = var.timeout_seconds
  }
  # everything that cannot be changed on a running allocation: a change of it releases the old one and launches another
  triggers_replace = [
    var.name, var.project, var.region, var.sku, var.gpu_count, var.image, var.ssh_keys, var.labels,
  ]

  provisioner "local-exec" {
    interpreter = ["bash", "-c"]
    command     = file("${path.module}/launch.sh")
    environment = {
      COMMAND         = self.input.command
      NAME            = self.input.name
      PROJECT         = self.input.project
      SECONDS_TO_WAIT = self.input.seconds
      REGION          = var.region
      SKU             = var.sku
      GPUS            = var.gpu_count
      IMAGE           = var.image
      # one line each; values with a line break are refused by the variables
      SSH_KEYS = join("\n", var.ssh_keys)
      LABELS   = join("\n", [for key, value in var.labels : "${key}=${value}"])
      # the label by which the release finds this allocation
      RESOURCE = self.id
      MODULE   = path.module
    }
  }

  provisioner "local-exec" {
    when        = destroy
    interpreter = ["bash", "-c"]
    command     = file("${path.module}/release.sh")
    environment = {
      COMMAND  = self.input.command
      PROJECT  = self.input.project
      RESOURCE = self.id
    }
  }
}
